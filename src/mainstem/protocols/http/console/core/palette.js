/** `/` goes to anything: pages, topics, groups, queues, exchanges, pipelines. */

import { get } from './api.js';
import { to } from './address.js';
import { draw, h } from './dom.js';

/** @typedef {{title: string, kind: string, href: string}} Goal */

/** @param {Goal[]} pages */
export function openPalette(pages) {
  if (document.querySelector('dialog[open]')) return;
  const home = document.createElement('dialog');
  home.className = 'palette';
  home.setAttribute('aria-label', 'Go to anything');
  /** @type {Goal[]} */
  let goals = pages;
  let at = 0, typed = '', round = 0;
  /** @type {any} */
  let timer;
  const opener = /** @type {HTMLElement|null} */ (document.activeElement);

  const enter = (/** @type {Goal|undefined} */ goal) => {
    if (!goal) return;
    home.close();
    location.hash = goal.href;
  };
  const show = () => draw(home, h('div', null,
    h('input', {
      type: 'text', role: 'combobox', 'aria-expanded': 'true', 'aria-controls': 'goals', 'aria-autocomplete': 'list', spellcheck: 'false',
      'aria-label': 'Go to', 'aria-activedescendant': goals[at] ? `goal-${at}` : undefined, placeholder: 'A page, topic, group, queue …',
      autocomplete: 'off', oninput: (/** @type {any} */ event) => { typed = event.target.value; look(); },
      onkeydown: (/** @type {KeyboardEvent} */ event) => {
        if (event.key === 'ArrowDown') at = Math.min(goals.length - 1, at + 1);
        else if (event.key === 'ArrowUp') at = Math.max(0, at - 1);
        else if (event.key === 'Enter') enter(goals[at]);
        else return;
        event.preventDefault();
        show();
        document.getElementById(`goal-${at}`)?.scrollIntoView({ block: 'nearest' });
      },
    }),
    h('ul', { id: 'goals', role: 'listbox', 'aria-label': 'Places' }, goals.map((goal, index) => h('li', {
      id: `goal-${index}`, role: 'option', 'aria-selected': String(index === at), onclick: () => enter(goal),
    }, h('span', null, goal.title), h('span', { class: 'muted' }, goal.kind)))),
    goals.length ? null : h('p', { class: 'empty' }, 'Nothing by this name.')));

  const look = () => {
    const text = typed.trim().toLowerCase(), now = ++round;
    const fitting = pages.filter((goal) => goal.title.toLowerCase().includes(text));
    goals = fitting;
    at = 0;
    show();
    clearTimeout(timer);
    if (!text) return;
    timer = setTimeout(async () => {
      const found = await Promise.all([
        names('v1/topics', 'topics', 'topic'), names('v1/groups', 'groups', 'group'), names('v1/queues', 'queues', 'queue'),
        names('v1/exchanges', 'exchanges', 'exchange'), names('v1/pipelines', 'pipelines', 'pipeline', true),
      ]);
      if (now !== round || !home.open) return;
      const traced = /^(00-)?[0-9a-f]{32}|:\d+:\d+$/.test(text) ? [{ title: typed.trim(), kind: 'trace', href: to(['trace'], { id: typed.trim() }) }] : [];
      goals = [...traced, ...fitting, ...found.flat()];
      show();
    }, 120);
  };

  /** @param {string} path @param {string} field @param {string} kind @param {boolean} [isShort] the list knows no search */
  async function names(path, field, kind, isShort) {
    try {
      const said = await get(path, isShort ? { limit: 50 } : { search: typed.trim(), limit: 7 });
      /** @type {{name: string}[]} */
      const list = said[field];
      return list.filter((one) => one.name && (!isShort || one.name.includes(typed.trim())))
        .map((one) => ({ title: one.name, kind, href: to([kind, one.name]) }));
    } catch {
      return [];
    }
  }

  home.addEventListener('close', () => { home.remove(); opener?.focus?.(); });
  home.addEventListener('click', (event) => { if (event.target === home) home.close(); });
  document.body.append(home);
  show();
  home.showModal();
}
