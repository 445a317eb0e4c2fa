/** This broker: who it is, where it listens, who may log in, how its storage is. */

import { get } from '../core/api.js';
import { h } from '../core/dom.js';
import { facts, heading, panel } from '../core/facts.js';
import { bytes, count } from '../core/format.js';
import { table } from '../core/table.js';
import { users } from './users.js';

/** @param {import('../app.js').Context} context @returns {import('../app.js').Page} */
export function page(context) {
  /** @type {any} */ let node = null;

  const people = users(context);

  /** @param {AbortSignal} signal */
  async function refresh(signal) {
    [node] = await Promise.all([get('v1/node', undefined, { signal }), people.refresh(signal)]);
    context.shared.node = node;
  }

  const value = (/** @type {string} */ name, /** @type {number} */ number) => (/_bytes(_|$)|^bytes/.test(name) ? bytes(number) : Number.isInteger(number) ? count(number) : number.toFixed(3));
  const view = () => [
    heading('Settings', node ? h('span', null, node.condition) : null),
    node ? [
      panel('Broker', facts([['Version', node.version], ['Node', node.node_id], ['Cluster', node.cluster_id], ['Topics', count(node.topics)], ['Groups', count(node.groups)], ['API', h('a', { href: 'openapi.json' }, 'openapi.json')], ['Measurements', h('a', { href: 'metrics' }, 'metrics')]])),
      panel('Listeners', table({
        label: 'Listeners', rows: node.listeners, key: (one) => `${one.name} ${one.address}`, sorted: 'none',
        columns: [
          { title: 'Protocol', kind: 'strong', cell: (one) => one.name }, { title: 'Listens at', cell: (one) => h('span', { class: 'mono' }, one.address) },
          { title: 'Clients are told', rank: 2, cell: (one) => h('span', { class: 'mono' }, (node.advertised[one.name] ?? []).join(' ')) },
          { title: 'Connections', number: true, cell: (one) => count(one.connections) }, { title: 'In', number: true, rank: 2, cell: (one) => bytes(one.received_bytes) }, { title: 'Out', number: true, rank: 2, cell: (one) => bytes(one.sent_bytes) },
        ],
      })),
      people.view(),
      panel('Storage', facts(Object.entries(node.storage).map(([name, number]) => [name.replaceAll('_', ' '), value(name, /** @type {number} */ (number))]))),
    ] : h('p', { class: 'empty' }, 'Loading …'),
  ];

  return { title: () => 'Settings', every: 5000, refresh, view };
}
