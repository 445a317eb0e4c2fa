/** Who is connected, over which protocol, with which library? */

import { at, get, request } from '../core/api.js';
import { change, here } from '../core/address.js';
import { h } from '../core/dom.js';
import { button, heading, tag } from '../core/facts.js';
import { ask } from '../core/form.js';
import { ago, bytes, count } from '../core/format.js';
import { chooser, finder, pager, table } from '../core/table.js';

/** @param {import('../app.js').Context} context @returns {import('../app.js').Page} */
export function page(context) {
  /** @type {any} */ let found = null;
  /** @type {any[]} */ let listeners = [];

  /** @param {AbortSignal} signal */
  async function refresh(signal) {
    const { search, protocol, sort, after } = context.query;
    const [list, node] = await Promise.all([get('v1/connections', { search, protocol, sort, after, limit: 50 }, { signal }), get('v1/node', undefined, { signal })]);
    found = list; listeners = node.listeners;
  }

  function view() {
    /** @type {Map<string, number>} */
    const by = new Map();
    for (const one of listeners) by.set(one.name, (by.get(one.name) ?? 0) + one.connections);
    const all = [...by.values()].reduce((sum, value) => sum + value, 0), { protocol } = here().query;
    return [
      heading('Connections', h('span', { class: 'live' }, count(all)), [finder({ label: 'Search client, library, user, address' })]),
      h('div', { class: 'bar-of-tools' },
        h('div', { class: 'chooser', role: 'group', 'aria-label': 'Protocol' }, [['', all], ...[...by].filter(([name, open]) => open || name === protocol)].map(([name, open]) => h('button', {
          type: 'button', 'aria-pressed': String((protocol ?? '') === name), onclick: () => change({ protocol: name, after: '', back: '' }) }, `${name || 'All'} ${open}`))),
        h('span', { class: 'push' }, chooser({ label: 'Order', name: 'sort', fallback: 'since', options: [['since', 'Oldest'], ['received', 'Most in'], ['sent', 'Most out'], ['client', 'Client']] }))),
      table({
        label: 'Connections', rows: found?.connections ?? null, key: (one) => one.id, sorted: 'none', empty: 'Nobody is connected.',
        columns: [
          { title: 'Client', kind: 'strong', cell: (one) => one.client || h('span', { class: 'muted' }, one.id) },
          { title: 'Protocol', cell: (one) => tag(one.protocol) },
          { title: 'Library', rank: 2, cell: (one) => one.library && one.library !== '-' ? `${one.library} ${one.version}` : h('span', { class: 'muted' }, 'not said') },
          { title: 'User', rank: 3, cell: (one) => one.user }, { title: 'From', rank: 2, cell: (one) => h('span', { class: 'mono' }, one.address) },
          { title: 'For', number: true, rank: 3, cell: (one) => ago(one.since_ms) },
          { title: 'In', number: true, cell: (one) => h('span', { title: `${bytes(one.received_bytes)} in all` }, `${bytes(one.received_bytes_per_second)}/s`) },
          { title: 'Out', number: true, cell: (one) => h('span', { title: `${bytes(one.sent_bytes)} in all` }, `${bytes(one.sent_bytes_per_second)}/s`) },
          { title: '', kind: 'tools', rank: 2, cell: (one) => button('Close', () => close(one, context), '', { 'aria-label': `Close ${one.client || one.id}` }) },
        ],
      }),
      pager({ next: found?.next, shown: found?.connections.length ?? 0, what: 'connections' }),
    ];
  }

  return { title: () => 'Connections', every: 2000, refresh, view };
}

/** @param {any} one @param {any} context */
function close(one, context) {
  ask({
    title: `Close ${one.client || one.id}`, text: 'What is in flight is finished. A client that connects again is let in.', action: 'Close', danger: true,
    submit: async () => { await request('DELETE', at('connections', one.id)); context.again(); return 'The connection is closed.'; },
  });
}
