/** What will happen? Records that wait for their time on a line, searched, cancelled, moved; and what recurs. */

import { change, here, to } from '../core/address.js';
import { at, get, request } from '../core/api.js';
import { columns } from '../core/chart.js';
import { plain } from '../core/content.js';
import { h } from '../core/dom.js';
import { button, heading, panel, tag } from '../core/facts.js';
import { ask } from '../core/form.js';
import { clock, count, duration, time } from '../core/format.js';
import { chooser, pager, table } from '../core/table.js';
import { headersOf, whenOf } from './publishing.js';
import { scheduleTable, targetName } from './scheduled.js';

const PARTS = 60, LOOKED = 1000;
const SPANS = /** @type {Record<string, number>} */ ({ '': 36e5, day: 864e5, month: 2592e6 });

/** @param {import('../app.js').Context} context @returns {import('../app.js').Page} */
export function page(context) {
  /** @type {any} */ let found = null;
  /** @type {any} */ let near = null;
  /** @type {any} */ let past = null;
  /** @type {any[]} */ let recurring = [];

  /** @param {AbortSignal} signal */
  async function refresh(signal) {
    const { topic, find, after, span } = context.query, now = Date.now(), width = SPANS[span ?? ''] ?? 36e5;
    const [header, value] = (find ?? '').split(/[=:](.*)/s).map((part) => part?.trim());
    const query = { topic, ...(header ? { header, ...(value ? { header_value: value } : {}) } : {}) };
    const [list, soon, again, before] = await Promise.all([
      get('v1/schedules', { ...query, after, limit: 50 }, { signal }), get('v1/schedules', { ...query, due_before_ms: now + width, limit: LOOKED }, { signal }),
      get('v1/recurrences', { limit: 200 }, { signal }),
      topic ? get(`${at('topics', topic)}/past`, { from_ms: now - width, until_ms: now, parts: PARTS }, { signal }).catch(() => null) : null]);
    found = list; near = soon; recurring = again.recurrences; past = before;
  }

  function view() {
    const { query } = here();
    return [
      heading('Schedule', found ? h('span', { class: 'live' }, `${count(found.pending)} records wait`) : null, [button('Add recurrence', () => recur(context)), button('Schedule a record', () => add(context), 'primary')]),
      panel(query.topic ? `Past and future of ${query.topic}` : 'What comes', picture(near, past, SPANS[query.span ?? ''] ?? 36e5), chooser({ label: 'Span', name: 'span', options: [['', 'Hour'], ['day', 'Day'], ['month', '30 days']] })),
      search(query),
      scheduleTable(found?.schedules ?? null, context.again, query.topic || query.find ? 'Nothing that waits fits.' : 'Nothing waits for its time.'),
      pager({ next: found?.next, shown: found?.schedules.length ?? 0, what: 'records' }),
      panel('What recurs', table({
        label: 'Recurrences', rows: recurring, key: (one) => one.name, sorted: 'none', empty: 'Nothing recurs.',
        columns: [
          { title: 'Name', kind: 'strong', cell: (one) => [one.name, ' ', one.paused ? tag('paused', 'warn') : null] }, { title: 'Rule', cell: (one) => h('span', { class: 'mono' }, `${one.cron} ${one.zone}`) },
          { title: 'To', rank: 2, cell: (one) => targetName(one.target) }, { title: 'Next (UTC)', kind: 'time', rank: 2, cell: (one) => time(one.next_ms).slice(0, 19) },
          { title: 'In', number: true, cell: (one) => duration((one.next_ms - Date.now()) / 1000) }, { title: 'So far', number: true, rank: 3, cell: (one) => count(one.count) },
          { title: 'Value', kind: 'key', rank: 3, cell: (one) => plain(one.value).slice(0, 80) },
          { title: '', kind: 'tools', cell: (one) => button('Delete', () => ask({ title: `Delete ${one.name}`, text: 'It does not happen again.', action: 'Delete', danger: true, confirm: one.name, submit: async () => { await request('DELETE', at('recurrences', one.name)); context.again(); } }), '', { 'aria-label': `Delete ${one.name}` }) },
        ],
      })),
    ];
  }

  return { title: () => 'Schedule', every: 3000, refresh, view };
}

/** @param {Record<string, string>} query */
function search(query) {
  /** @param {any} event */
  const submit = (event) => {
    event.preventDefault();
    const { topic, find } = event.target.elements;
    change({ topic: topic.value.trim(), find: find.value.trim(), after: '', back: '' });
  };
  return h('form', { class: 'bar-of-tools', role: 'search', 'aria-label': 'Schedule', onsubmit: submit },
    h('div', { class: 'field' }, h('label', { for: 'topic' }, 'Topic or routing key'), h('input', { id: 'topic', name: 'topic', value: query.topic ?? '', autocomplete: 'off', spellcheck: 'false' })),
    h('div', { class: 'field' }, h('label', { for: 'find' }, 'Header'), h('input', { id: 'find', name: 'find', class: 'broad', value: query.find ?? '', placeholder: 'customer=42', autocomplete: 'off', spellcheck: 'false' })),
    h('button', { type: 'submit' }, 'Search'),
    query.topic ? h('a', { class: 'push', href: to(['topic', query.topic]) }, `to ${query.topic}`) : null);
}

/** What was and what comes on one line. @param {any} near @param {any} past @param {number} width */
function picture(near, past, width) {
  if (!near) return h('p', { class: 'muted' }, 'Loading …');
  const now = Date.now(), part = width / PARTS, values = Array(PARTS).fill(0);
  for (const one of near.schedules) values[Math.max(0, Math.min(PARTS - 1, Math.floor((one.due_ms - now) / part)))]++;
  const before = past ? past.records : [];
  const edge = (/** @type {number} */ ms) => (width > 864e5 ? time(ms).slice(0, 10) : clock(ms).slice(0, 5));
  return [
    h('div', { class: past ? 'times two' : 'times' },
      past ? columns({ values: before, label: 'What was published', titles: (index) => `${time(past.from_ms + index * part).slice(0, 19)}: ${count(before[index])} published` }) : null,
      columns({ values, label: 'What is scheduled', mark: 0, titles: (index) => `${time(now + index * part).slice(0, 19)}: ${count(values[index])} scheduled` })),
    h('div', { class: 'foot-line' }, past ? h('span', null, edge(now - width)) : null, h('span', null, 'now'), h('span', null, edge(now + width))),
    h('p', { class: 'muted' }, past ? `${count(before.reduce((/** @type {number} */ a, /** @type {number} */ b) => a + b, 0))} published before, ${count(near.schedules.length)} to come; each side has a scale of its own.`
      : `${count(near.schedules.length)}${near.next ? ' and more' : ''} to come. Search for a topic, and what was published stands beside it.`),
  ];
}

/** @param {any} context */
function add(context) {
  ask({
    title: 'Schedule a record', action: 'Schedule',
    fields: [
      { name: 'topic', label: 'Topic or queue', required: true, value: context.query.topic ?? '' }, { name: 'due', label: 'When', value: '1h', required: true, hint: 'A delay as 15m or 2h, or a time (UTC).' },
      { name: 'key', label: 'Key' }, { name: 'value', label: 'Value', type: 'area' }, { name: 'headers', label: 'Headers', type: 'area', hint: 'One on a line, NAME: VALUE.' },
    ],
    submit: async (values) => {
      const { after_ms, due_ms } = whenOf(values.due);
      await request('POST', 'v1/schedules', { target: { topic: values.topic }, key: values.key || null, value: values.value, headers: headersOf(values.headers), ...(due_ms === undefined ? { delay_ms: after_ms } : { due_ms }) });
      context.again();
      return 'It is scheduled.';
    },
  });
}

/** @param {any} context */
function recur(context) {
  ask({
    title: 'Publish again and again', action: 'Save',
    fields: [
      { name: 'name', label: 'Name', required: true }, { name: 'topic', label: 'Topic or queue', required: true },
      { name: 'cron', label: 'Cron expression', value: '0 7 * * MON-FRI', required: true }, { name: 'zone', label: 'Time zone', value: 'UTC' }, { name: 'value', label: 'Value', type: 'area' },
    ],
    submit: async (values) => {
      await request('PUT', at('recurrences', values.name), { target: { topic: values.topic }, cron: values.cron, zone: values.zone, value: values.value });
      context.again();
      return `${values.name} recurs.`;
    },
  });
}
