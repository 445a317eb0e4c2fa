/** Keys and values of records: a line of them, all of them, as text that can be edited. */

import { Exact, parseExact } from './api.js';
import { h } from './dom.js';

const LINE = 240, LINES_MAX = 2_000, TEXT_MAX = 20_000;
/** Contents that somebody wanted to see whole. @type {Set<string>} */
const whole = new Set();

/** A key or header: text, or bytes. @param {any} content */
export function plain(content) {
  if (content === null || content === undefined) return '';
  if (content instanceof Exact) return content.source;
  if (typeof content === 'object' && typeof content.base64 === 'string') return `base64 ${content.base64}`;
  return typeof content === 'string' ? content : JSON.stringify(content);
}

/** The value of a record in one line, only as long as it is shown. @param {any} record */
export function preview(record) {
  if (record.base64 !== undefined) return `base64 ${record.base64.slice(0, LINE)}`;
  if (record.text !== undefined) return record.text.slice(0, LINE).replace(/\s+/g, ' ');
  /** @type {string[]} */
  const parts = [];
  compact(record.value, parts, { left: LINE });
  return parts.join('').slice(0, LINE);
}

/** @param {any} value @param {string[]} parts @param {{left: number}} room */
function compact(value, parts, room) {
  const say = (/** @type {string} */ text) => { parts.push(text); room.left -= text.length; };
  if (room.left <= 0) return;
  if (value instanceof Exact) say(value.source);
  else if (Array.isArray(value)) {
    say('[');
    for (let index = 0; index < value.length && room.left > 0; index++) { if (index) say(', '); compact(value[index], parts, room); }
    say(']');
  } else if (value && typeof value === 'object') {
    say('{');
    let isFirst = true;
    for (const name in value) {
      if (room.left <= 0) break;
      say(`${isFirst ? '' : ', '}${JSON.stringify(name)}: `);
      isFirst = false;
      compact(value[name], parts, room);
    }
    say('}');
  } else if (typeof value === 'string') say(JSON.stringify(value.slice(0, LINE)));
  else say(JSON.stringify(value) ?? 'null');
}

/** As it can be edited, copied and published again. @param {any} record */
export function editable(record) {
  if (record.base64 !== undefined) return record.base64;
  if (record.text !== undefined) return record.text;
  return record.value === null || record.value === undefined ? '' : JSON.stringify(record.value, null, 2);
}

/** What kind a value is of. @param {any} record @returns {'json'|'text'|'base64'|'none'} */
export function kindOf(record) {
  if (record.base64 !== undefined) return 'base64';
  if (record.text !== undefined) return 'text';
  return record.value === null || record.value === undefined ? 'none' : 'json';
}

/** A value whole, JSON in colours. @param {any} record @param {string} name by which it is remembered that all is wanted @param {() => void} redraw */
export function view(record, name, redraw) {
  const kind = kindOf(record);
  if (kind === 'none') return h('p', { class: 'muted' }, 'No value.');
  const isWhole = whole.has(name);
  if (kind !== 'json') {
    const text = kind === 'text' ? record.text : record.base64;
    return h('pre', { class: 'content' }, isWhole ? text : text.slice(0, TEXT_MAX), more(text.length > TEXT_MAX && !isWhole, name, redraw));
  }
  /** @type {any[]} */
  const parts = [];
  const room = { lines: isWhole ? Infinity : LINES_MAX, chars: isWhole ? Infinity : TEXT_MAX };
  paint(record.value, '', parts, room);
  return h('pre', { class: 'content json' }, parts, more(room.lines <= 0 || room.chars <= 0, name, redraw));
}

/** @param {boolean} isCut @param {string} name @param {() => void} redraw */
function more(isCut, name, redraw) {
  return isCut ? h('button', { type: 'button', onclick: () => { whole.add(name); redraw(); } }, '… show all of it') : null;
}

/** @param {any} value @param {string} indent @param {any[]} parts @param {{lines: number, chars: number}} room */
function paint(value, indent, parts, room) {
  if (room.lines <= 0 || room.chars <= 0) return;
  const deeper = `${indent}  `;
  const entries = Array.isArray(value) ? value.map((item) => [null, item])
    : value && typeof value === 'object' && !(value instanceof Exact) ? Object.entries(value) : null;
  if (entries === null) {
    const text = value instanceof Exact ? value.source : JSON.stringify(value) ?? 'null';
    const kind = typeof value === 'string' ? 'string' : typeof value === 'number' || value instanceof Exact ? 'number' : 'word';
    parts.push(h('span', { class: kind }, text.length > room.chars ? `${text.slice(0, room.chars)}…` : text));
    room.chars -= text.length;
    return;
  }
  const [open, close] = Array.isArray(value) ? '[]' : '{}';
  if (entries.length === 0) { parts.push(open + close); return; }
  parts.push(open);
  for (const [index, [name, item]] of entries.entries()) {
    if (room.lines-- <= 0 || room.chars <= 0) break;
    parts.push(`${index ? ',' : ''}\n${deeper}`);
    if (name !== null) { parts.push(h('span', { class: 'name' }, JSON.stringify(name)), ': '); room.chars -= name.length; }
    paint(item, deeper, parts, room);
  }
  parts.push(`\n${indent}${close}`);
}

/** A value as the API takes it, from what somebody has typed. @param {string} text @param {string} kind */
export function toValue(text, kind) {
  if (kind === 'none') return { value: null };
  if (kind === 'base64') return { base64: text.trim() };
  if (kind === 'text') return { text };
  return { value: parseExact(text) };
}

/** The headers of a record as pairs. @param {any} headers @returns {[string, any][]} */
export function headerPairs(headers) {
  if (Array.isArray(headers)) return headers.map((one) => [one.name, one.value]);
  return Object.entries(headers ?? {});
}
