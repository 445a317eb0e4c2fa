/** One exchange, and where it leads. */

import { search, to } from '../core/address.js';
import { at, get, request } from '../core/api.js';
import { h } from '../core/dom.js';
import { button, heading, panel, tag } from '../core/facts.js';
import { ask, attempt } from '../core/form.js';
import { pager, table } from '../core/table.js';

/** @param {import('../app.js').Context} context @returns {import('../app.js').Page} */
export function page(context) {
  const name = context.path[1] ?? '', ns = context.query.ns;
  /** @type {any} */ let exchange = null;
  /** @type {any} */ let out = null;
  /** @type {any[]} */ let into = [];

  /** @param {AbortSignal} signal */
  async function refresh(signal) {
    const [document, from, to_] = await Promise.all([
      name ? get(at('exchanges', name), { namespace: ns }, { signal }) : { name: '', kind: 'direct', durable: true },
      get(`v1/bindings${search({ namespace: ns, exchange: name, limit: 100, after: context.query.after })}`, undefined, { signal }),
      name ? get('v1/bindings', { namespace: ns, to_exchange: name, limit: 100 }, { signal }) : { bindings: [] }]);
    exchange = document; out = from; into = to_.bindings;
  }

  const leads = (/** @type {any} */ one) => to([one.destination_kind, one.destination], { ns });
  const view = () => [
    heading(name || '(default)', [exchange ? tag(exchange.kind, 'plain') : null, ns ? h('span', null, `namespace ${ns}`) : null], [
      button('Bind', () => bind(name, ns, context), 'primary', { disabled: !name }),
      button('Delete', () => ask({ title: `Delete ${name}`, text: 'Its bindings go with it.', action: 'Delete', danger: true, confirm: name, submit: async () => { await request('DELETE', at('exchanges', name) + search({ namespace: ns })); location.hash = to(['exchanges'], { ns }); } }), '', { disabled: !name || name.startsWith('amq.') }),
    ], [['Exchanges', to(['exchanges'], { ns })]]),
    panel('Leads to', table({
      label: 'Bindings', rows: out?.bindings ?? null, key: (one) => one.id, sorted: 'none', empty: name ? 'It leads nowhere: what is published to it is dropped, or returned.' : 'It leads to every queue by its name.',
      columns: [
        { title: 'To', kind: 'strong', cell: (one) => h('a', { href: leads(one) }, one.destination) }, { title: 'Kind', rank: 2, cell: (one) => tag(one.destination_kind, 'plain') },
        { title: 'Routing key', cell: (one) => h('span', { class: 'mono' }, one.routing_key) }, { title: 'Arguments', rank: 3, cell: (one) => h('span', { class: 'mono' }, Object.keys(one.arguments).length ? JSON.stringify(one.arguments) : '') },
        { title: '', kind: 'tools', cell: (one) => button('Unbind', () => attempt(async () => { await request('DELETE', at('bindings', one.id) + search({ namespace: ns })); context.again(); }, 'The binding is gone.'), '', { 'aria-label': `Unbind ${one.destination}` }) },
      ],
    })),
    pager({ next: out?.next, shown: out?.bindings.length ?? 0, what: 'bindings' }),
    into.length ? panel('Reached from', table({
      label: 'Bindings to it', rows: into, key: (one) => one.id, sorted: 'none',
      columns: [{ title: 'Exchange', kind: 'strong', cell: (one) => h('a', { href: to(['exchange', one.exchange], { ns }) }, one.exchange) }, { title: 'Routing key', cell: (one) => h('span', { class: 'mono' }, one.routing_key) }] })) : null,
  ];

  return { title: () => name || '(default)', every: 5000, refresh, view };
}

/** @param {string} exchange @param {string|undefined} ns @param {any} context */
function bind(exchange, ns, context) {
  ask({
    title: `Bind ${exchange}`, action: 'Bind',
    fields: [
      { name: 'kind', label: 'To', type: 'choice', value: 'queue', options: [['queue', 'a queue'], ['to_exchange', 'an exchange']] },
      { name: 'name', label: 'Name', required: true }, { name: 'key', label: 'Routing key' },
    ],
    submit: async (values) => {
      await request('POST', 'v1/bindings', { exchange, [values.kind]: values.name, routing_key: values.key, ...(ns ? { namespace: ns } : {}) });
      context.again();
      return `${exchange} leads to ${values.name}.`;
    },
  });
}
