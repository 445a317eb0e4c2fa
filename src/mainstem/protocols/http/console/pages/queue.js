/** One queue: what waits, who takes it, what leads to it; paused, rewound with a preview, purged. */

import { search, to } from '../core/address.js';
import { at, get, request } from '../core/api.js';
import { columns } from '../core/chart.js';
import { h } from '../core/dom.js';
import { button, card, facts, heading, panel, tag } from '../core/facts.js';
import { ask, attempt } from '../core/form.js';
import { count, duration, moment, time } from '../core/format.js';
import { pager, table } from '../core/table.js';
import { messageTable } from './messages.js';
import { publish } from './publishing.js';

const PARTS = 60;

/** @param {import('../app.js').Context} context @returns {import('../app.js').Page} */
export function page(context) {
  const name = context.path[1] ?? '', ns = context.query.ns;
  const space = { namespace: ns };
  /** @type {any} */ let queue = null;
  /** @type {any} */ let messages = null;
  /** @type {any[]} */ let bindings = [];

  /** @param {AbortSignal} signal */
  async function refresh(signal) {
    const [document, page, bound] = await Promise.all([
      get(at('queues', name), space, { signal }),
      get(`${at('queues', name)}/messages`, { ...space, after: context.query.after, limit: 25 }, { signal, exact: true }),
      get('v1/bindings', { ...space, queue: name, limit: 100 }, { signal })]);
    queue = document; messages = page; bindings = bound.bindings;
  }

  function view() {
    if (!queue) return [heading(name, null, null, [['Queues', to(['queues'])]]), h('p', { class: 'empty' }, 'Loading …')];
    const rules = Object.entries(queue.rules);
    return [
      heading(name, [tag(queue.kind, 'plain'), queue.paused ? tag('paused', 'warn') : null, ns ? h('span', null, `namespace ${ns}`) : null], [
        button(queue.paused ? 'Resume' : 'Pause', () => attempt(async () => { await request('PATCH', at('queues', name) + search(space), { paused: !queue.paused }); context.again(); })),
        button('Rewind', () => rewind(queue, context)), button('Purge', () => purge(queue, context)), button('Delete', () => destroy(queue)),
        queue.topic ? button('Publish', () => publish(queue.topic, { ns, done: context.again }), 'primary') : null,
      ], [['Queues', to(['queues'])]]),
      h('div', { class: 'cards four' },
        card('Ready', count(queue.ready)), card('With consumers', count(queue.unsettled)),
        card('Oldest', duration(queue.lag_seconds), '', { tone: queue.lag_seconds > 300 ? 'warn' : '' }),
        card('Consumers', count(queue.consumers), '', { tone: queue.ready && !queue.consumers ? 'warn' : '', href: to(['connections'], { protocol: 'amqp' }) })),
      panel('Messages that are not settled', messageTable(messages?.messages ?? null, name, ns, context, 'Nothing waits.'), h('span', { class: 'muted' }, 'Looked at without taking them.')),
      pager({ next: messages?.next, shown: messages?.messages.length ?? 0, what: 'messages' }),
      h('div', { class: 'pair even' },
        panel('What leads to it', table({
          label: 'Bindings', rows: bindings, key: (one) => one.id, sorted: 'none', empty: 'No binding; the default exchange leads to it by its name.',
          columns: [{ title: 'Exchange', kind: 'strong', cell: (one) => h('a', { href: to(['exchange', one.exchange], { ns }) }, one.exchange || '(default)') }, { title: 'Routing key', cell: (one) => h('span', { class: 'mono' }, one.routing_key) }] })),
        panel('Rules in force', facts([
          ['Topic', queue.topic ? h('a', { href: to(['topic', queue.topic], { ns }) }, queue.topic) : 'none'], ['Durable', String(queue.durable)],
          ...(queue.lost ? [/** @type {[any, any]} */ (['Lost to retention', count(queue.lost)])] : []), .../** @type {[any, any][]} */ (rules.map(([rule, value]) => [rule.replaceAll('_', ' '), value]))]))),
      queue.lanes.length > 1 ? panel('Lanes', table({
        label: 'Lanes', rows: queue.lanes, key: (one) => one.lane, sorted: 'none',
        columns: [{ title: 'Lane', number: true, cell: (one) => one.lane }, { title: 'Settled below', number: true, cell: (one) => count(one.floor) }, { title: 'End', number: true, cell: (one) => count(one.end) },
          { title: 'Messages', number: true, cell: (one) => count(one.lag_messages) }, { title: 'Oldest', number: true, cell: (one) => duration(one.lag_seconds) }] })) : null,
    ];
  }

  return { title: () => name, every: 2000, refresh, view };
}

/** @param {any} queue @param {any} context */
async function rewind(queue, context) {
  const space = queue.namespace === 'default' ? {} : { namespace: queue.namespace };
  /** @type {any} */
  let past = null;
  try { past = queue.topic ? await get(`${at('topics', queue.topic)}/past`, { ...space, parts: PARTS }) : null; } catch { /* without a picture */ }
  const asked = (/** @type {any} */ values) => {
    if (values.to === 'offset') return { offset: Number(values.offset) };
    const ms = moment(values.time);
    if (ms === null) throw new Error(`${values.time} is not a time`);
    return { time_ms: ms };
  };
  ask({
    title: `Rewind ${queue.name}`, action: 'Rewind', danger: true, confirm: queue.name, wide: true,
    text: [h('p', null, 'All from there on waits again, whether it was settled or not; all before is settled.'), past ? histogram(past) : null],
    fields: [
      { name: 'to', label: 'To', type: 'choice', value: 'time', options: [['time', 'a time'], ['offset', 'an offset']] },
      { name: 'time', label: 'Time (UTC)', value: past ? time(past.from_ms) : '1h', hint: '15m or 2h ago, 14:03:20, yesterday 14:03, 2026-11-18 14:03', when: (values) => values.to === 'time' },
      { name: 'offset', label: 'Offset', type: 'number', value: '0', when: (values) => values.to === 'offset' },
    ],
    preview: async (values) => {
      const found = await get(`${at('queues', queue.name)}/seek`, { ...space, ...asked(values) });
      const where = asked(values).time_ms;
      return [h('b', null, `${count(found.messages)} messages wait again`), `, ${count(found.ready)} wait now. `,
        found.consumers ? `${count(found.consumers)} consumers will get them.` : 'No consumer is there to get them.',
        past && where !== undefined ? histogram(past, where) : null];
    },
    submit: async (values) => {
      const said = await request('POST', `${at('queues', queue.name)}/seek${search(space)}`, asked(values));
      context.again();
      return `${count(said.ready)} messages of ${queue.name} wait now.`;
    },
  });
}

/** @param {any} past @param {number} [from] */
function histogram(past, from) {
  const width = (past.until_ms - past.from_ms) / past.records.length;
  return h('div', null, columns({ values: past.records, label: 'Messages over time', mark: from === undefined ? undefined : Math.floor((from - past.from_ms) / width),
    titles: (index) => `${time(past.from_ms + index * width)}: ${count(past.records[index])}` }),
  h('div', { class: 'foot-line' }, h('span', null, time(past.from_ms).slice(0, 19)), h('span', null, time(past.until_ms).slice(0, 19))));
}

/** @param {any} queue @param {any} context */
function purge(queue, context) {
  ask({
    title: `Purge ${queue.name}`, text: `All ${count(queue.ready)} messages that wait are settled. A rewind brings them back while retention holds them.`, action: 'Purge', danger: true, confirm: queue.name,
    submit: async () => { const { messages } = await request('POST', `${at('queues', queue.name)}/purge${search({ namespace: queue.namespace })}`); context.again(); return `${count(messages)} messages are settled.`; },
  });
}

/** @param {any} queue */
function destroy(queue) {
  ask({
    title: `Delete ${queue.name}`, text: 'What waits in it goes with it.', action: 'Delete', danger: true, confirm: queue.name,
    submit: async () => { await request('DELETE', at('queues', queue.name) + search({ namespace: queue.namespace })); location.hash = to(['queues']); return `Queue ${queue.name} is deleted.`; },
  });
}
