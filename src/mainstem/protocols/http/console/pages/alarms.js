/** What is not as it should be, and the rules that say so. */

import { get, request } from '../core/api.js';
import { h } from '../core/dom.js';
import { button, heading, panel, tag } from '../core/facts.js';
import { ask, attempt, numberOf } from '../core/form.js';
import { ago, count, duration } from '../core/format.js';
import { table } from '../core/table.js';
import { sentenceOf } from './parts.js';

const MEASURES = ['group_lag_seconds', 'dead_letters', 'disk_free_bytes', 'appends_refused', 'pipelines_failed', 'live.records_in'];

/** @param {import('../app.js').Context} context @returns {import('../app.js').Page} */
export function page(context) {
  /** @type {any} */ let found = null;

  /** @param {AbortSignal} signal */
  async function refresh(signal) {
    found = await get('v1/alarms', undefined, { signal });
    context.shared.alarms = found.alarms;
  }

  const view = () => [
    heading('Alarms', found ? h('span', null, found.alarms.length ? `${found.alarms.length} raised` : 'none is raised') : null, [button('Add rule', () => rule('', null, context), 'primary')]),
    panel('Raised', table({
      label: 'Alarms', rows: found?.alarms ?? null, key: (one) => `${one.rule} ${one.subject}`, sorted: 'none', empty: 'All is as it should be.',
      columns: [
        { title: 'Severity', cell: (one) => tag(one.severity, one.severity === 'critical' ? 'bad' : 'warn') }, { title: 'What', kind: 'strong', cell: sentenceOf },
        { title: 'Rule', rank: 2, cell: (one) => one.rule }, { title: 'Since', number: true, cell: (one) => `${ago(one.since_ms)}` },
      ],
    })),
    panel('Rules', table({
      label: 'Rules', rows: found ? Object.entries(found.rules).map(([name, one]) => ({ name, .../** @type {any} */ (one) })) : null, key: (one) => one.name, sorted: 'none', empty: 'There is no rule.',
      columns: [
        { title: 'Name', kind: 'strong', cell: (one) => one.name }, { title: 'Measure', cell: (one) => h('span', { class: 'mono' }, one.measure) },
        { title: 'Of', rank: 3, cell: (one) => one.subject || h('span', { class: 'muted' }, 'each') },
        { title: 'Bound', number: true, cell: (one) => one.above === null ? `below ${count(one.below)}` : `above ${count(one.above)}` },
        { title: 'For', number: true, rank: 2, cell: (one) => duration(one.for_s) }, { title: 'Severity', rank: 2, cell: (one) => tag(one.severity, one.severity === 'critical' ? 'bad' : 'warn') },
        { title: '', kind: 'tools', cell: (one) => [button('Change', () => rule(one.name, one, context), '', { 'aria-label': `Change ${one.name}` }), ' ',
          button('Switch off', () => attempt(async () => { await request('DELETE', `v1/alarms/rules/${encodeURIComponent(one.name)}`); context.again(); }, `${one.name} is off.`), '', { 'aria-label': `Switch ${one.name} off` })] },
      ],
    })),
  ];

  return { title: () => 'Alarms', every: 3000, refresh, view };
}

/** @param {string} name @param {any} one @param {any} context */
function rule(name, one, context) {
  ask({
    title: name ? `Change ${name}` : 'Add a rule', action: 'Save',
    fields: [
      { name: 'name', label: 'Name', value: name, required: true, when: () => !name },
      { name: 'measure', label: 'Measure', value: one?.measure ?? 'group_lag_seconds', required: true, hint: `${MEASURES.join(', ')}, or live. and the name of any live number` },
      { name: 'side', label: 'Raised when it is', type: 'choice', value: one?.below !== null && one ? 'below' : 'above', options: [['above', 'above'], ['below', 'below']] },
      { name: 'bound', label: 'Bound', type: 'number', value: String(one?.above ?? one?.below ?? 0), required: true },
      { name: 'seconds', label: 'For so many seconds', type: 'number', value: String(one?.for_s ?? 0) },
      { name: 'severity', label: 'Severity', type: 'choice', value: one?.severity ?? 'warning', options: [['warning', 'warning'], ['critical', 'critical']] },
      { name: 'subject', label: 'Only of', value: one?.subject ?? '', hint: 'A group, queue or pipeline; empty: each.' },
    ],
    submit: async (values) => {
      const { measure, severity, subject } = values;
      await request('PUT', `v1/alarms/rules/${encodeURIComponent(name || values.name)}`, { measure, severity, subject, [values.side]: numberOf(values.bound), for_s: numberOf(values.seconds) ?? 0 });
      context.again();
    },
  });
}
