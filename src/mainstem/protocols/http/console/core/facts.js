/** Small things that several pages show: cards, tags, definitions, headings. */

import { h } from './dom.js';

/** @typedef {import('./dom.js').Child} Child */

/** The top of a page. @param {Child} title @param {Child} [aside] @param {Child} [actions] @param {[string, string][]} [above] where it belongs to */
export function heading(title, aside, actions, above) {
  return h('header', { class: 'heading' },
    h('div', { class: 'title' },
      above ? h('nav', { class: 'above', 'aria-label': 'Above' }, above.map(([name, href]) => h('a', { href }, name))) : null,
      h('h1', null, title), aside ? h('div', { class: 'aside' }, aside) : null),
    actions ? h('div', { class: 'actions' }, actions) : null);
}

/** A number that counts. @param {string} title @param {Child} value @param {Child} [unit] @param {{tone?: string, href?: string, more?: Child}} [o] */
export function card(title, value, unit, o = {}) {
  return h(o.href ? 'a' : 'div', { class: `card ${o.tone ?? ''}`, href: o.href },
    h('div', { class: 'muted' }, title),
    h('div', { class: 'big live' }, value, unit ? h('small', null, ' ', unit) : null),
    o.more ?? null);
}

/** @param {Child} text @param {string} [tone] */
export function tag(text, tone = '') {
  return h('span', { class: `tag ${tone}` }, text);
}

/** @param {[Child, Child][]} pairs */
export function facts(pairs) {
  return h('dl', { class: 'facts' }, pairs.map(([name, value]) => h('div', null, h('dt', null, name), h('dd', null, value))));
}

/** @param {Child} title @param {Child} content @param {Child} [aside] */
export function panel(title, content, aside) {
  return h('section', { class: 'panel' }, h('div', { class: 'top' }, h('h2', null, title), aside ?? null), content);
}

/** The parts of a page. @param {string} label @param {[string, Child, string][]} tabs name, title, address @param {string} now */
export function tabs(label, tabs, now) {
  return h('nav', { class: 'tabs', 'aria-label': label }, tabs.map(([name, title, href]) =>
    h('a', { href, 'aria-current': name === now ? 'page' : undefined }, title)));
}

/** @param {string} title @param {() => void} run @param {string} [tone] @param {Record<string, any>} [more] */
export function button(title, run, tone = '', more = {}) {
  return h('button', { type: 'button', class: tone, onclick: run, ...more }, title);
}

/** @param {string} text */
export async function copy(text) {
  await navigator.clipboard.writeText(text);
}

/** Give a file to the reader. @param {string} name @param {string} text @param {string} type */
export function save(name, text, type) {
  const address = URL.createObjectURL(new Blob([text], { type }));
  const link = document.createElement('a');
  link.href = address;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}
