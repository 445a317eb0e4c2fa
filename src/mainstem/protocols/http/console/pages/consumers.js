/** Who is behind? All consumers of all protocols in one list, in seconds. */

import { get } from '../core/api.js';
import { h } from '../core/dom.js';
import { heading } from '../core/facts.js';
import { ago } from '../core/format.js';
import { chooser, finder, pager } from '../core/table.js';
import { behindTable } from './parts.js';

/** @param {import('../app.js').Context} context @returns {import('../app.js').Page} */
export function page(context) {
  /** @type {any} */ let found = null;

  /** @param {AbortSignal} signal */
  async function refresh(signal) {
    const { search, kind, sort, after } = context.query;
    found = await get('v1/consumers', { search, kind, sort, after, limit: 50 }, { signal });
  }

  const view = () => [
    heading('Consumers', found ? h('span', null, found.complete ? `as of ${ago(found.as_of_ms)} ago` : 'the first of very many') : null, [finder({ label: 'Search consumers and topics' })]),
    h('div', { class: 'bar-of-tools' },
      chooser({ label: 'Kind', name: 'kind', options: [['', 'All'], ['group', 'Groups'], ['share-group', 'Share groups'], ['queue', 'Queues'], ['subscription', 'Subscriptions']] }),
      h('span', { class: 'push' }, chooser({ label: 'Order', name: 'sort', fallback: 'seconds', options: [['seconds', 'Longest behind'], ['messages', 'Most messages'], ['name', 'Name']] }))),
    behindTable(found?.consumers ?? null, context.query.search ? 'No consumer by this name.' : 'Nobody reads anything yet.'),
    pager({ next: found?.next, shown: found?.consumers.length ?? 0, what: 'consumers' }),
  ];

  return { title: () => 'Consumers', every: 3000, refresh, view };
}
