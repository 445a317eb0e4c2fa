/** One topic: its records, who reads it, its partitions, its configuration, what is scheduled to it. */

import { here, to } from '../core/address.js';
import { at, get, request } from '../core/api.js';
import { h } from '../core/dom.js';
import { button, heading, tabs, tag } from '../core/facts.js';
import { ask, attempt, numberOf } from '../core/form.js';
import { bytes, count } from '../core/format.js';
import { chooser, finder, pager, table } from '../core/table.js';
import { behindTable } from './parts.js';
import { publish } from './publishing.js';
import { records } from './records.js';
import { scheduleTable } from './scheduled.js';

const PARTITIONS_SHOWN = 100;

/** @param {import('../app.js').Context} context @returns {import('../app.js').Page} */
export function page(context) {
  const name = context.path[1] ?? '';
  const ns = context.query.ns;
  /** @type {any} */ let topic = null;
  /** @type {any} */ let summary = null;
  /** @type {any} */ let consumers = null;
  /** @type {any} */ let scheduled = null;
  const list = records(context, name, ns);
  const tab = () => context.path[2] ?? 'records';

  /** @param {AbortSignal} signal */
  async function refresh(signal) {
    const { search, kind, sort, after } = here().query;
    const [document, found, readers, waiting] = await Promise.all([
      ns ? null : get(at('topics', name), tab() === 'partitions' ? { limit: PARTITIONS_SHOWN, after } : { limit: PARTITIONS_SHOWN }, { signal }),
      get('v1/topics', { search: name, namespace: ns, limit: 50 }, { signal }),
      tab() === 'consumers' ? get(`${at('topics', name)}/consumers`, { namespace: ns, search, kind, sort, after, limit: 50 }, { signal }) : null,
      tab() === 'schedule' ? get('v1/schedules', { topic: name, limit: 100 }, { signal }) : null,
      tab() === 'records' ? list.refresh(signal) : null,
    ]);
    topic = document;
    summary = found.topics.find((/** @type {any} */ one) => one.name === name) ?? summary;
    if (readers) consumers = readers;
    if (waiting) scheduled = waiting;
  }

  function view() {
    const where = (/** @type {string} */ part) => to(part === 'records' ? ['topic', name] : ['topic', name, part], { ns });
    return [
      heading(name, [
        summary ? tag(summary.kind, summary.kind === 'stream' ? '' : 'plain') : null,
        summary ? h('span', { class: 'live' }, `${count(summary.records)} records`) : null,
        summary ? h('span', { class: 'live' }, bytes(summary.bytes)) : null,
        topic ? h('span', null, `${count(topic.partition_count)} ${topic.partition_count === 1 ? 'partition' : 'partitions'}`) : null,
        ns ? h('span', null, `namespace ${ns}`) : null,
      ], [
        summary?.kind === 'queue' ? h('a', { href: to(['queue', name], { ns }) }, 'as a queue') : null,
        button('Publish', () => publish(name, { ns, done: context.again }), 'primary'),
      ], [['Topics', to(['topics'])]]),
      tabs('Parts of the topic', [
        ['records', 'Records', where('records')], ['consumers', 'Consumers', where('consumers')], ['partitions', 'Partitions', where('partitions')],
        ['configuration', 'Configuration', where('configuration')], ['schedule', 'Schedule', where('schedule')],
      ], tab()),
      tab() === 'records' ? list.view(topic, summary) : tab() === 'consumers' ? readersView(consumers) : tab() === 'partitions' ? partitionsView(topic, context)
        : tab() === 'schedule' ? scheduledView(scheduled, name, context) : configurationView(topic, context),
    ];
  }

  return { title: () => name, every: 2000, refresh, view, moved: list.moved, close: list.close };
}

/** @param {any} consumers */
function readersView(consumers) {
  return [
    h('div', { class: 'bar-of-tools' }, finder({ label: 'Search consumers' }),
      chooser({ label: 'Kind', name: 'kind', options: [['', 'All'], ['group', 'Groups'], ['share-group', 'Share groups'], ['queue', 'Queues'], ['subscription', 'Subscriptions']] }),
      h('span', { class: 'push' }, chooser({ label: 'Order', name: 'sort', fallback: 'messages', options: [['messages', 'Most messages'], ['seconds', 'Longest'], ['name', 'Name']] }))),
    behindTable(consumers?.consumers ?? null, 'Nobody reads this topic and remembers how far.', true),
    pager({ next: consumers?.next, shown: consumers?.consumers.length ?? 0, what: 'consumers' }),
  ];
}

/** @param {any} topic @param {any} context */
function partitionsView(topic, context) {
  if (!topic) return h('p', { class: 'empty' }, 'Loading …');
  const most = Math.max(1, ...topic.partitions.map((/** @type {any} */ one) => one.bytes));
  return [
    h('div', { class: 'bar-of-tools' }, h('span', { class: 'push' }, button('Add partitions', () => ask({
      title: `Add partitions to ${topic.name}`, action: 'Add', text: 'Keys go to other partitions from then on. Partitions cannot be taken away again.',
      fields: [{ name: 'partitions', label: 'Partitions in all', type: 'number', value: String(topic.partition_count + 1), required: true }],
      submit: async (values) => { await request('PATCH', at('topics', topic.name), { partitions: numberOf(values.partitions) }); context.again(); },
    })))),
    table({
      label: 'Partitions', rows: topic.partitions, key: (one) => one.partition, sorted: 'none', href: (one) => to(['topic', topic.name], { partition: one.partition }),
      columns: [
        { title: 'Partition', number: true, cell: (one) => h('a', { href: to(['topic', topic.name], { partition: one.partition }) }, one.partition) },
        { title: 'First offset', number: true, cell: (one) => count(one.start) }, { title: 'End', number: true, cell: (one) => count(one.end) },
        { title: 'Records', number: true, rank: 2, cell: (one) => count(one.end - one.start) },
        { title: 'In open transactions', number: true, rank: 3, cell: (one) => one.end - one.stable ? h('span', { class: 'warn-text' }, count(one.end - one.stable)) : '0' },
        { title: 'Size', number: true, cell: (one) => bytes(one.bytes) },
        { title: '', rank: 2, cell: (one) => h('span', { class: 'bar', 'aria-hidden': 'true' }, h('i', { style: { width: `${(one.bytes / most) * 100}%` } })) },
      ],
    }),
    pager({ next: topic.next, shown: topic.partitions.length, what: 'partitions' }),
  ];
}

/** @param {any} topic @param {any} context */
function configurationView(topic, context) {
  if (!topic) return h('p', { class: 'empty' }, 'Loading …');
  const search = (context.query.search ?? '').toLowerCase();
  const rows = Object.entries(topic.config).map(([name, fact]) => ({ name, ...fact }))
    .filter((one) => one.name.includes(search) && (context.query.source !== 'set' || one.source !== 'default'))
    .sort((a, b) => (a.source === 'default' ? 1 : 0) - (b.source === 'default' ? 1 : 0) || a.name.localeCompare(b.name));
  return [
    h('div', { class: 'bar-of-tools' }, finder({ label: 'Search configurations' }), chooser({ label: 'Which', name: 'source', options: [['', 'All'], ['set', 'Only what is set']] }),
      h('span', { class: 'push' }, button('Delete topic', () => destroy(topic.name), 'bad'))),
    table({
      label: 'Configuration', rows, key: (one) => one.name, sorted: 'none', empty: 'No configuration by this name.',
      columns: [
        { title: 'Name', kind: 'strong', cell: (one) => one.name },
        { title: 'Value', cell: (one) => [h('span', { class: 'mono' }, one.value === '' ? '(empty)' : one.value), ' ', h('span', { class: 'muted' }, meaning(one.name, one.value))] },
        { title: 'Source', rank: 2, cell: (one) => tag(one.source, one.source === 'default' ? 'plain' : '') },
        { title: '', kind: 'tools', cell: (one) => [button('Change', () => configure(topic.name, one, context), '', { 'aria-label': `Change ${one.name}` }),
          one.source === 'topic' ? [' ', button('Reset', () => attempt(async () => {
            await request('PATCH', at('topics', topic.name), { config: { [one.name]: null } });
            context.again();
          }, `${one.name} is back at its default.`), '', { 'aria-label': `Reset ${one.name}` })] : null] },
      ],
    }),
  ];
}

/** A number of ms or bytes in words. @param {string} name @param {string} value */
function meaning(name, value) {
  const number = Number(value);
  if (!Number.isFinite(number) || value === '') return '';
  if (number === -1) return 'no limit';
  if (number > 1e18) return '';
  if (name.endsWith('.ms')) return number >= 864e5 ? `${+(number / 864e5).toFixed(1)} d` : number >= 36e5 ? `${+(number / 36e5).toFixed(1)} h` : number >= 1000 ? `${+(number / 1000).toFixed(1)} s` : '';
  return name.endsWith('.bytes') ? bytes(number) : '';
}

/** @param {string} topic @param {any} one @param {any} context */
function configure(topic, one, context) {
  ask({
    title: one.name, action: 'Save', fields: [{ name: 'value', label: 'Value', value: one.value }],
    submit: async (values) => {
      await request('PATCH', at('topics', topic), { config: { [one.name]: values.value } });
      context.again();
      return `${one.name} is ${values.value}.`;
    },
  });
}

/** @param {string} name */
function destroy(name) {
  ask({
    title: `Delete ${name}`, text: 'All records of the topic go, and the offsets that groups have in it. This cannot be undone.', action: 'Delete', danger: true, confirm: name,
    submit: async () => {
      await request('DELETE', at('topics', name));
      location.hash = to(['topics']);
      return `Topic ${name} is deleted.`;
    },
  });
}

/** @param {any} scheduled @param {string} name @param {any} context */
function scheduledView(scheduled, name, context) {
  return [
    h('div', { class: 'bar-of-tools' }, h('span', { class: 'muted' }, 'Records that become visible here at their time.'),
      h('a', { class: 'push', href: to(['schedule'], { topic: name }) }, 'in the schedule')),
    scheduleTable(scheduled?.schedules ?? null, context.again, `Nothing is scheduled to ${name}.`),
  ];
}
