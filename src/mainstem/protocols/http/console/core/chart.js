/** Charts as SVG: lines over time with a legend that switches, sparklines, bars. */

import { h } from './dom.js';
import { clock } from './format.js';

const HEIGHT = 220, LEFT = 58, RIGHT = 12, TOP = 12, BOTTOM = 24;
/** What a chart keeps between two drawings, by its name. @type {Map<string, {width: number, over: number|null, off: Set<string>}>} */
const kept = new Map();

/**
 * @typedef {object} Line
 * @property {string} name
 * @property {(number|null)[]} values the newest last
 * @property {boolean} [off] hidden until it is asked for
 */

/**
 * Lines over time.
 * @param {{name: string, label: string, lines: Line[], end: number, step: number, format: (value: number) => string, redraw: () => void,
 *          height?: number}} o `end` and `step` in ms
 */
export function chart(o) {
  let state = kept.get(o.name);
  if (!state) {
    state = { width: 0, over: null, off: new Set(o.lines.filter((line) => line.off).map((line) => line.name)) };
    kept.set(o.name, state);
  }
  const known = state, height = o.height ?? HEIGHT;
  const shown = o.lines.filter((line) => !known.off.has(line.name));
  const legend = h('div', { class: 'legend' }, o.lines.map((line, index) => h('button', {
    type: 'button', class: `key c${index % 6}`, 'aria-pressed': String(!known.off.has(line.name)),
    onclick: () => { known.off.has(line.name) ? known.off.delete(line.name) : known.off.add(line.name); o.redraw(); },
  }, line.name)));
  return h('div', { class: 'chart' }, legend,
    h('div', {
      class: 'plot', style: { height: `${height}px` },
      ref: (/** @type {HTMLElement} */ el) => watch(el, o.name, o.redraw),
      onpointermove: (/** @type {PointerEvent} */ event) => {
        const box = /** @type {Element} */ (event.currentTarget).getBoundingClientRect();
        known.over = event.clientX - box.left;
        o.redraw();
      },
      onpointerleave: () => { known.over = null; o.redraw(); },
    }, known.width > 0 ? plot(o, shown, known, height) : null));
}

/** @param {HTMLElement} el @param {string} name @param {() => void} redraw */
function watch(el, name, redraw) {
  new ResizeObserver(() => {
    const state = kept.get(name);
    if (state && el.clientWidth && state.width !== el.clientWidth) {
      state.width = el.clientWidth;
      redraw();
    }
  }).observe(el);
}

/** @param {any} o @param {Line[]} lines @param {any} state @param {number} height */
function plot(o, lines, state, height) {
  const { width } = state, length = Math.max(2, ...lines.map((line) => line.values.length));
  const top = nice(Math.max(0, ...lines.flatMap((line) => line.values.map((value) => value ?? 0))));
  const x = (/** @type {number} */ index) => LEFT + (index / (length - 1)) * (width - LEFT - RIGHT);
  const y = (/** @type {number} */ value) => TOP + (1 - value / top) * (height - TOP - BOTTOM);
  const marks = [0, 0.25, 0.5, 0.75, 1].map((part) => h('g', null,
    h('line', { class: 'grid', x1: LEFT, x2: width - RIGHT, y1: y(top * part), y2: y(top * part) }),
    h('text', { class: 'mark', x: LEFT - 8, y: y(top * part) + 4, 'text-anchor': 'end' }, o.format(top * part))));
  const places = width > 560 ? [0, 0.25, 0.5, 0.75, 1] : [0, 0.5, 1];
  const times = places.map((part) => h('text', {
    class: 'mark', x: x((length - 1) * part), y: height - 6, 'text-anchor': part === 0 ? 'start' : part === 1 ? 'end' : 'middle',
  }, part === 1 ? 'now' : clock(o.end - (1 - part) * (length - 1) * o.step)));
  const drawn = lines.map((line) => {
    const color = `c${o.lines.indexOf(line) % 6}`, offset = length - line.values.length;
    const path = way(line.values, (index) => x(index + offset), y);
    return h('g', { key: line.name, class: color },
      lines.length === 1 ? h('path', { class: 'area', d: area(line.values, (index) => x(index + offset), y) }) : null,
      h('path', { class: 'line', d: path }));
  });
  return [
    h('svg', { width, height, role: 'img', 'aria-label': summary(o, lines) }, marks, times, drawn,
      state.over !== null ? cross(state.over, x, length, height) : null),
    state.over !== null ? reading(o, lines, state, x, length) : null,
  ];
}

/** @param {(number|null)[]} values @param {(i: number) => number} x @param {(v: number) => number} y */
function way(values, x, y) {
  let path = '', isDown = false;
  values.forEach((value, index) => {
    if (value === null) { isDown = false; return; }
    path += `${isDown ? 'L' : 'M'}${x(index).toFixed(1)} ${y(value).toFixed(1)}`;
    isDown = true;
  });
  return path;
}

/** @param {(number|null)[]} values @param {(i: number) => number} x @param {(v: number) => number} y */
function area(values, x, y) {
  const first = values.findIndex((value) => value !== null);
  if (first < 0) return '';
  return `M${x(first).toFixed(1)} ${y(0).toFixed(1)}${values.slice(first).map((value, index) =>
    `L${x(first + index).toFixed(1)} ${y(value ?? 0).toFixed(1)}`).join('')}L${x(values.length - 1).toFixed(1)} ${y(0).toFixed(1)}Z`;
}

/** @param {number} over @param {(i: number) => number} x @param {number} length */
function nearest(over, x, length) {
  const index = Math.round(((over - x(0)) / (x(length - 1) - x(0))) * (length - 1));
  return Math.max(0, Math.min(length - 1, index));
}

/** @param {number} over @param {(i: number) => number} x @param {number} length @param {number} height */
function cross(over, x, length, height) {
  const place = x(nearest(over, x, length));
  return h('line', { class: 'cross', x1: place, x2: place, y1: TOP, y2: height - BOTTOM });
}

/** @param {any} o @param {Line[]} lines @param {any} state @param {(i: number) => number} x @param {number} length */
function reading(o, lines, state, x, length) {
  const index = nearest(state.over, x, length), isRight = x(index) > state.width / 2;
  return h('div', { class: 'reading', style: isRight ? { right: `${state.width - x(index) + 10}px` } : { left: `${x(index) + 10}px` } },
    h('div', { class: 'muted' }, clock(o.end - (length - 1 - index) * o.step)),
    lines.map((line) => {
      const value = line.values[index - (length - line.values.length)];
      return h('div', { class: `c${o.lines.indexOf(line) % 6}` }, h('i', { class: 'dot' }), `${line.name} `,
        h('b', null, value === null || value === undefined ? '-' : o.format(value)));
    }));
}

/** What somebody hears who does not see the chart. @param {any} o @param {Line[]} lines */
function summary(o, lines) {
  const now = lines.map((line) => `${line.name} ${o.format(line.values.findLast((value) => value !== null) ?? 0)}`);
  return `${o.label}. Now: ${now.join(', ') || 'nothing'}.`;
}

/** The next round number. @param {number} value */
function nice(value) {
  if (value <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return ([1, 2, 4, 5, 8, 10].find((step) => step * power >= value) ?? 10) * power;
}

/** A small line without axes. @param {(number|null)[]} values @param {string} label @param {number} [width] */
export function spark(values, label, width = 84) {
  const height = 22, top = Math.max(1, ...values.map((value) => value ?? 0));
  const step = width / Math.max(1, values.length - 1);
  const x = (/** @type {number} */ i) => i * step, y = (/** @type {number} */ v) => height - 2 - (v / top) * (height - 4);
  return h('svg', { class: 'spark', width, height, viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': label },
    values.length < 2 ? h('path', { class: 'line', d: `M0 ${height - 2}H${width}` }) : [
      h('path', { class: 'area', d: area(values, x, y) }), h('path', { class: 'line', d: way(values, x, y) })]);
}

/** A bar of a part of the whole. @param {number} part 0 to 1 @param {string} [tone] */
export function bar(part, tone = '') {
  return h('span', { class: `bar ${tone}`, 'aria-hidden': 'true' },
    h('i', { style: { width: `${Math.max(0, Math.min(1, part)) * 100}%` } }));
}

/** Bars over time. @param {{values: number[], label: string, titles: (index: number) => string, mark?: number}} o */
export function columns(o) {
  const top = Math.max(1, ...o.values);
  return h('div', { class: 'columns', role: 'img', 'aria-label': o.label }, o.values.map((value, index) =>
    h('i', { title: o.titles(index), class: o.mark !== undefined && index >= o.mark ? 'on' : '', style: { height: `${Math.max(value ? 4 : 1, (value / top) * 100)}%` } })));
}

