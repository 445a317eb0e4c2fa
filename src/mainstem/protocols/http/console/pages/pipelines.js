/** Do they progress? Deployed pipelines. */

import { to } from '../core/address.js';
import { get } from '../core/api.js';
import { h } from '../core/dom.js';
import { heading, tag } from '../core/facts.js';
import { ago, count, short } from '../core/format.js';
import { chooser, pager, table } from '../core/table.js';

const TONES = /** @type {Record<string, string>} */ ({ running: '', failed: 'bad', waiting: 'warn', starting: 'warn', stopping: 'warn' });

/** @param {string} state */
export function stateTag(state) {
  return tag(state, TONES[state] ?? 'plain');
}

/** @param {any} one */
export function totals(one) {
  const sum = (/** @type {string} */ field) => one.sinks.reduce((/** @type {number} */ all, /** @type {any} */ sink) => all + sink[field], 0);
  return { in: sum('rows_in_per_s'), out: sum('rows_out_per_s'), lag: sum('lag'), slowest: Math.max(0, ...one.sinks.map((/** @type {any} */ sink) => sink.batch_ms)) };
}

/** @param {import('../app.js').Context} context @returns {import('../app.js').Page} */
export function page(context) {
  /** @type {any} */ let found = null;

  /** @param {AbortSignal} signal */
  async function refresh(signal) {
    const { all, after } = context.query;
    found = await get('v1/pipelines', { all: all ? 'true' : undefined, after, limit: 50 }, { signal });
  }

  const view = () => [
    heading('Pipelines', null, [chooser({ label: 'Which', name: 'all', options: [['', 'Deployed'], ['1', "The broker's own too"]] })]),
    table({
      label: 'Pipelines', rows: found?.pipelines ?? null, key: (one) => one.name, href: (one) => to(['pipeline', one.name]), sorted: 'none',
      empty: [h('p', null, 'No pipeline is deployed.'), h('p', { class: 'mono' }, 'mainstem pipeline deploy pipeline.yml')],
      columns: [
        { title: 'Name', kind: 'strong', cell: (one) => h('a', { href: to(['pipeline', one.name]) }, one.name) },
        { title: 'State', cell: (one) => stateTag(one.state) },
        { title: 'Rows in', number: true, cell: (one) => `${short(Math.round(totals(one).in))}/s` }, { title: 'Rows out', number: true, rank: 2, cell: (one) => `${short(Math.round(totals(one).out))}/s` },
        { title: 'Behind', number: true, cell: (one) => count(totals(one).lag) }, { title: 'Batch', number: true, rank: 3, cell: (one) => `${count(totals(one).slowest)} ms` },
        { title: 'Restarts', number: true, rank: 3, cell: (one) => one.restarts ? h('span', { class: 'warn-text' }, count(one.restarts)) : '0' },
        { title: 'Last report', rank: 3, cell: (one) => one.progress_ms ? `${ago(one.progress_ms)} ago` : h('span', { class: 'muted' }, 'none') },
        { title: 'Error', rank: 2, kind: 'key', cell: (one) => h('span', { class: 'bad' }, one.error) },
      ],
    }),
    pager({ next: found?.next, shown: found?.pipelines.length ?? 0, what: 'pipelines' }),
  ];

  return { title: () => 'Pipelines', every: 2000, refresh, view };
}
