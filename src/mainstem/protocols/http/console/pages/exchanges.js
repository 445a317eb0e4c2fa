/** Exchanges by name. */

import { to } from '../core/address.js';
import { get, request } from '../core/api.js';
import { h } from '../core/dom.js';
import { button, heading, tag } from '../core/facts.js';
import { ask } from '../core/form.js';
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
    [found] = await Promise.all([get('v1/exchanges', { search, after, namespace: ns, limit: 50 }, { signal }), spaces.refresh(signal)]);
  }

  const view = () => [
    heading('Exchanges', null, [spaces.view(), finder({ label: 'Search exchanges' }), button('Create exchange', () => create(context), 'primary')]),
    table({
      label: 'Exchanges', rows: found?.exchanges ?? null, key: (one) => one.name, href: (one) => to(['exchange', one.name], { ns: context.query.ns }), sorted: 'none', empty: 'No exchange by this name.',
      columns: [
        { title: 'Name', kind: 'strong', cell: (one) => h('a', { href: to(['exchange', one.name], { ns: context.query.ns }) }, one.name || '(default)') },
        { title: 'Kind', cell: (one) => tag(one.kind, 'plain') },
        { title: 'Bindings', number: true, cell: (one) => count(one.bindings) },
        { title: '', rank: 2, cell: (one) => [one.durable ? null : tag('not durable', 'warn'), one.internal ? tag('internal', 'plain') : null, one.auto_delete ? tag('deleted when unused', 'plain') : null] },
      ],
    }),
    pager({ next: found?.next, shown: found?.exchanges.length ?? 0, what: 'exchanges' }),
  ];

  return { title: () => 'Exchanges', every: 5000, refresh, view };
}

/** @param {import('../app.js').Context} context */
function create(context) {
  ask({
    title: 'Create an exchange', action: 'Create',
    fields: [{ name: 'name', label: 'Name', required: true }, { name: 'kind', label: 'Kind', type: 'choice', value: 'topic', options: ['direct', 'fanout', 'topic', 'headers'].map((one) => [one, one]) }],
    submit: async (values) => {
      await request('POST', 'v1/exchanges', { name: values.name, kind: values.kind, ...(context.query.ns ? { namespace: context.query.ns } : {}) });
      location.hash = to(['exchange', values.name], { ns: context.query.ns });
    },
  });
}
