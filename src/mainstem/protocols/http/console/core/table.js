/** The one table of the console: sorted by the broker, a page at a time, rows that open, columns that go on narrow screens. */

import { change, here } from './address.js';
import { h } from './dom.js';

/**
 * @template T
 * @typedef {object} Column
 * @property {string} title
 * @property {(row: T) => import('./dom.js').Child} cell
 * @property {string} [sort] the name by which the broker sorts
 * @property {boolean} [number] to the right, with figures of one width
 * @property {1|2|3} [rank] 2: not on phones, 3: only on wide screens
 * @property {string} [kind] a class of its cells
 */

/**
 * @template T
 * @param {object} o
 * @param {string} o.label
 * @param {Column<T>[]} o.columns
 * @param {T[]|null|undefined} o.rows null: not known yet
 * @param {(row: T) => string|number} o.key
 * @param {(row: T) => string|undefined} [o.href] where a row leads
 * @param {string|number|null} [o.opened] key of the row that is open
 * @param {(key: string|number|null) => void} [o.onopen]
 * @param {(row: T) => import('./dom.js').Child} [o.detail] what an open row shows
 * @param {import('./dom.js').Child} [o.empty]
 * @param {string} [o.sorted] the order in force
 * @param {(row: T) => string} [o.tone] a class of a row
 */
export function table(o) {
  const { columns, rows } = o;
  const sorted = o.sorted ?? here().query.sort;
  const head = columns.map((column) => {
    const name = column.sort;
    const button = name && h('button', {
      type: 'button', class: 'sort', onclick: () => change({ sort: name, after: '' }),
    }, column.title, h('span', { 'aria-hidden': 'true', class: 'arrow' }, sorted === name ? ' ↓' : ''));
    return h('th', {
      scope: 'col', class: style(column), 'aria-sort': name && sorted === name ? 'descending' : undefined,
    }, button || (column.title ? column.title : h('span', { class: 'unseen' }, 'Actions')));
  });
  return h('div', { class: 'table', tabindex: '0', role: 'region', 'aria-label': o.label },
    h('table', null,
      h('caption', { class: 'unseen' }, o.label),
      h('thead', null, h('tr', null, head)),
      h('tbody', null, rows?.flatMap((row) => {
        const key = o.key(row), isOpen = o.opened !== undefined && o.opened !== null && String(o.opened) === String(key);
        const cells = columns.map((column, index) => h('td', { class: style(column) },
          index === 0 && o.onopen ? opener(o, key, isOpen, column.cell(row)) : column.cell(row)));
        const line = h('tr', {
          key: `r${key}`, class: `${isOpen ? 'opened ' : ''}${o.tone?.(row) ?? ''}${o.onopen || o.href ? ' leads' : ''}`,
          onclick: (/** @type {MouseEvent} */ event) => follow(event, o, row, key, isOpen),
        }, cells);
        if (!isOpen) return [line];
        return [line, h('tr', { key: `d${key}`, class: 'detail' }, h('td', { colspan: columns.length }, o.detail?.(row)))];
      }))),
    rows === null || rows === undefined ? h('p', { class: 'empty' }, 'Loading …')
      : rows.length === 0 ? h('div', { class: 'empty' }, o.empty ?? 'Nothing here.') : null);
}

/** @param {Column<any>} column */
function style(column) {
  return [column.number ? 'number' : '', column.rank ? `rank${column.rank}` : '', column.kind ?? ''].join(' ').trim() || undefined;
}

/** @param {any} o @param {string|number} key @param {boolean} isOpen @param {any} content */
function opener(o, key, isOpen, content) {
  return h('button', {
    type: 'button', class: 'opener', 'aria-expanded': String(isOpen), onclick: () => o.onopen(isOpen ? null : key),
  }, content);
}

/** @param {MouseEvent} event @param {any} o @param {any} row @param {string|number} key @param {boolean} isOpen */
function follow(event, o, row, key, isOpen) {
  const target = /** @type {Element} */ (event.target);
  if (target.closest('a, button, input, label') || String(getSelection()) !== '') return;
  if (o.onopen) o.onopen(isOpen ? null : key);
  else if (o.href?.(row)) location.hash = o.href(row);
}

/**
 * The way to further pages. The places of the pages before are in the address, too.
 * @param {{next: string|null|undefined, shown: number, what: string}} o `next` is the broker's reference of the next page
 */
export function pager(o) {
  const { after, back } = here().query;
  if (!o.next && !after) return null;
  const following = o.next ? new URLSearchParams(o.next.split('?', 2)[1]).get('after') : null;
  const places = back ? JSON.parse(back) : [];
  return h('nav', { class: 'pager', 'aria-label': 'Pages' },
    h('button', { type: 'button', disabled: !after, onclick: () => change({
      after: places.at(-1) ?? '', back: places.length > 1 ? JSON.stringify(places.slice(0, -1)) : '' }) }, '← Before'),
    h('span', { class: 'muted' }, `page ${places.length + 1}, ${o.shown} ${o.what}`),
    h('button', { type: 'button', disabled: !following, onclick: () => change({
      after: following, back: JSON.stringify([...places, after ?? '']).slice(0, 4000) }) }, 'Next →'));
}

/** @type {any} */
let timer;

/**
 * A field that narrows a list; what is typed goes into the address.
 * @param {{label: string, name?: string, placeholder?: string}} o
 */
export function finder(o) {
  const name = o.name ?? 'search';
  return h('label', { class: 'finder' }, h('span', { class: 'unseen' }, o.label),
    h('input', {
      type: 'search', placeholder: o.placeholder ?? o.label, value: here().query[name] ?? '', spellcheck: 'false', autocomplete: 'off',
      oninput: (/** @type {any} */ event) => {
        const { value } = event.target;
        clearTimeout(timer);
        timer = setTimeout(() => change({ [name]: value, after: '', back: '' }, true), 150);
      },
    }));
}

/**
 * One of a few, in the address. @param {{label: string, name: string, options: [string, string][], fallback?: string}} o
 */
export function chooser(o) {
  const now = here().query[o.name] ?? o.fallback ?? '';
  return h('div', { class: 'chooser', role: 'group', 'aria-label': o.label }, o.options.map(([value, title]) =>
    h('button', {
      type: 'button', 'aria-pressed': String(value === now),
      onclick: () => change({ [o.name]: value === (o.fallback ?? '') ? '' : value, after: '', back: '' }),
    }, title)));
}
