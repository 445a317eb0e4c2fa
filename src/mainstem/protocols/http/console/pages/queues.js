/** Queues by name. */

import { to } from '../core/address.js';
import { get, request } from '../core/api.js';
import { h } from '../core/dom.js';
import { button, heading, tag } from '../core/facts.js';
import { ask, numberOf } from '../core/form.js';
import { count } from '../core/format.js';
import { finder, pager, table } from '../core/table.js';
import { namespaceChooser } from './namespaces.js';

/** @param {import('../app.js').Context} context @returns {import('../app.js').Page} */
export function page(context) {
  /** @type {any} */ let found = null;
  const spaces = namespaceChooser();

  /** @param {AbortSignal} signal */
  async function refresh(signal) {
    const { search, after, ns } = context.query;
    [found] = await Promise.all([get('v1/queues', { search, after, namespace: ns, limit: 50 }, { signal }), spaces.refresh(signal)]);
  }

  const view = () => [
    heading('Queues', null, [spaces.view(), finder({ label: 'Search queues' }), button('Create queue', () => create(context.query.ns), 'primary')]),
    table({
      label: 'Queues', rows: found?.queues ?? null, key: (one) => one.name, href: (one) => to(['queue', one.name], { ns: context.query.ns }), sorted: 'none',
      empty: context.query.search ? 'No queue by this name.' : 'There is no queue yet.',
      columns: [
        { title: 'Name', kind: 'strong', cell: (one) => h('a', { href: to(['queue', one.name], { ns: context.query.ns }) }, one.name) },
        { title: 'Kind', rank: 2, cell: (one) => tag(one.kind, 'plain') },
        { title: 'State', rank: 2, cell: (one) => one.paused ? tag('paused', 'warn') : one.consumers ? tag('running') : h('span', { class: 'muted' }, 'idle') },
        { title: 'Ready', number: true, cell: (one) => h('b', null, count(one.ready)) },
        { title: 'With consumers', number: true, cell: (one) => count(one.unsettled) },
        { title: 'Consumers', number: true, rank: 2, cell: (one) => one.consumers || !one.ready ? count(one.consumers) : h('span', { class: 'warn-text' }, 'none') },
      ],
    }),
    pager({ next: found?.next, shown: found?.queues.length ?? 0, what: 'queues' }),
  ];

  return { title: () => 'Queues', every: 2000, refresh, view };
}

/** @param {string|undefined} ns */
function create(ns) {
  ask({
    title: 'Create a queue', action: 'Create',
    fields: [
      { name: 'name', label: 'Name', required: true, hint: 'On a topic of this name it takes what comes to the topic from then on.' },
      { name: 'kind', label: 'Kind', type: 'choice', value: 'classic', options: [['classic', 'Classic'], ['quorum', 'Quorum'], ['stream', 'Stream']] },
      { name: 'dead', label: 'Queue for dead letters', hint: 'Empty: what is rejected is dropped.' },
      { name: 'limit', label: 'Deliveries of a message, at most', type: 'number' },
      { name: 'ordered', label: 'Messages of one key one after the other', type: 'check' },
    ],
    submit: async (values) => {
      await request('POST', 'v1/queues', {
        name: values.name, kind: values.kind, ...(ns ? { namespace: ns } : {}), ...(values.dead ? { dead_letter_queue: values.dead } : {}),
        ...(values.limit ? { delivery_limit: numberOf(values.limit) } : {}), ordering: values.ordered ? 'key' : 'shared' });
      location.hash = to(['queue', values.name], { ns });
      return `Queue ${values.name} is created.`;
    },
  });
}
