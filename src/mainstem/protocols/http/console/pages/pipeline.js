/** One pipeline: sources, steps and sinks, how fast, how far behind, why it failed, what it wrote. */

import { to } from '../core/address.js';
import { at, get, request } from '../core/api.js';
import { h } from '../core/dom.js';
import { button, card, facts, heading, panel, tabs } from '../core/facts.js';
import { ask, attempt } from '../core/form.js';
import { ago, bytes, count, short, time } from '../core/format.js';
import { table } from '../core/table.js';
import { stateTag, totals } from './pipelines.js';

const LOG_KEPT = 200_000;

/** @param {import('../app.js').Context} context @returns {import('../app.js').Page} */
export function page(context) {
  const name = context.path[1] ?? '';
  /** @type {any} */ let one = null;
  let log = '', end = 0;
  const tab = () => context.path[2] ?? 'progress';

  /** @param {AbortSignal} signal */
  async function refresh(signal) {
    one = await get(at('pipelines', name), undefined, { signal });
    if (tab() !== 'log') return;
    const said = await get(`${at('pipelines', name)}/log`, { after: end }, { signal });
    log = ((said.begin > end ? '' : log) + said.text).slice(-LOG_KEPT);
    end = said.end;
  }

  /** @param {string} verb @param {string} done */
  const tell = (verb, done) => attempt(async () => { await request('POST', `${at('pipelines', name)}/${verb}`); context.again(); }, done);

  function view() {
    const above = /** @type {[string, string][]} */ ([['Pipelines', to(['pipelines'])]]);
    if (!one) return [heading(name, null, null, above), h('p', { class: 'empty' }, 'Loading …')];
    const sum = totals(one);
    return [
      heading(name, [stateTag(one.state), h('span', null, `revision ${one.revision}`), one.worker ? h('span', null, `on ${one.worker}`) : null], one.origin === 'deployed' ? [
        one.wanted === 'running' ? button('Pause', () => tell('pause', 'It is paused.')) : button('Resume', () => tell('resume', 'It goes on.'), 'primary'),
        button('Stop', () => tell('stop', 'It is stopped.')),
        button('Delete', () => ask({ title: `Delete ${name}`, text: 'Its driver ends; what it has published stays.', action: 'Delete', danger: true, confirm: name, submit: async () => { await request('DELETE', at('pipelines', name)); location.hash = to(['pipelines']); } })),
      ] : null, above),
      one.error ? h('div', { class: 'health bad', role: 'status' }, h('b', null, 'Failed. '), h('span', null, one.error)) : null,
      h('div', { class: 'cards four' }, card('Rows in', short(Math.round(sum.in)), '/s'), card('Rows out', short(Math.round(sum.out)), '/s'),
        card('Behind', count(sum.lag), 'records'), card('Slowest batch', count(sum.slowest), 'ms')),
      tabs('Parts of the pipeline', [['progress', 'Progress', to(['pipeline', name])], ['definition', 'Definition', to(['pipeline', name, 'definition'])], ['log', 'Log', to(['pipeline', name, 'log'])]], tab()),
      tab() === 'definition' ? definition(one) : tab() === 'log' ? panel('What its driver has written', h('pre', { class: 'content', tabindex: '0' }, log || 'Nothing yet.')) : progress(one),
    ];
  }

  return { title: () => name, every: 2000, refresh, view };
}

/** @param {any} one */
function progress(one) {
  const broken = Object.entries(one.broken);
  return [
    panel('Sinks', table({
      label: 'Sinks', rows: one.sinks, key: (sink) => sink.sink, sorted: 'none', empty: 'Nothing was reported yet.',
      columns: [
        { title: 'Sink', kind: 'strong', cell: (sink) => sink.sink || '(only one)' }, { title: 'Batch', number: true, cell: (sink) => count(sink.batch) },
        { title: 'Rows in', number: true, cell: (sink) => `${short(Math.round(sink.rows_in_per_s))}/s` }, { title: 'Rows out', number: true, rank: 2, cell: (sink) => `${short(Math.round(sink.rows_out_per_s))}/s` },
        { title: 'Time', number: true, cell: (sink) => `${count(sink.batch_ms)} ms` }, { title: 'Behind', number: true, cell: (sink) => count(sink.lag) },
        { title: 'State', number: true, rank: 3, cell: (sink) => `${count(sink.state_rows)} rows, ${bytes(sink.state_bytes)}` },
      ],
    })),
    broken.length ? panel('Rows that broke a rule', facts(broken.map(([rule, rows]) => [rule, count(/** @type {number} */ (rows))]))) : null,
    panel('Facts', facts([['Deployed', time(one.deployed_ms)], ['Last change', one.changed_ms ? `${ago(one.changed_ms)} ago` : '-'], ['Last report', one.progress_ms ? `${ago(one.progress_ms)} ago` : '-'], ['Restarts', count(one.restarts)], ['Wanted', one.wanted], ['Origin', one.origin]])),
  ];
}

/** @param {any} one */
function definition(one) {
  return [panel(one.file, h('pre', { class: 'content', tabindex: '0' }, one.definition)), Object.entries(one.files).map(([file, text]) => panel(file, h('pre', { class: 'content', tabindex: '0' }, text)))];
}
