/** Where is it? Topics, searched and sorted by the broker, with pins that this browser keeps. */

import { to } from '../core/address.js';
import { get, request } from '../core/api.js';
import { spark } from '../core/chart.js';
import { h } from '../core/dom.js';
import { button, heading, tag } from '../core/facts.js';
import { ask, numberOf } from '../core/form.js';
import { bytes, count, short } from '../core/format.js';
import { chooser, finder, pager, table } from '../core/table.js';

const PINS = 'mainstem.pins', PINS_MAX = 20, RATES_KEPT = 180;

/** @returns {string[]} */
function pins() {
  try { return JSON.parse(localStorage.getItem(PINS) ?? '[]'); } catch { return []; }
}

/** @param {import('../app.js').Context} context @returns {import('../app.js').Page} */
export function page(context) {
  /** @type {any} */ let found = null;
  /** @type {any[]} */ let pinned = [];
  /** @type {Record<string, (number|null)[]>} */ let rates = {};
  let sequence = 2 ** 53;

  /** @param {AbortSignal} signal */
  async function refresh(signal) {
    const { search, sort, kind, after, ns } = context.query;
    // Which sample is the newest? Only the last minute of them is wanted.
    if (sequence === 2 ** 53) sequence = Math.max(0, (await get('v1/live', { topics: 1, after: sequence }, { signal })).sequence - 60);
    const isPlain = !search && !kind && !after && !ns;
    const [list, now, ...stuck] = await Promise.all([
      get('v1/topics', { search, sort, kind, after, namespace: ns, limit: 50 }, { signal }),
      get('v1/live', { topics: 200, after: sequence }, { signal }),
      ...(isPlain ? pins() : []).map((name) => get('v1/topics', { search: name, limit: 1 }, { signal })),
    ]);
    found = list;
    for (const name in now.topics) rates[name] = [...(rates[name] ?? []), ...now.topics[name]].slice(-RATES_KEPT);
    sequence = now.sequence;
    pinned = stuck.flatMap((one) => one.topics).filter((one) => pins().includes(one.name));
  }

  /** @param {string} name */
  function pin(name) {
    const now = pins();
    localStorage.setItem(PINS, JSON.stringify(now.includes(name) ? now.filter((one) => one !== name) : [name, ...now].slice(0, PINS_MAX)));
    context.again();
  }

  function view() {
    const isSearch = Boolean(context.query.search);
    const names = new Set(pinned.map((one) => one.name));
    const rows = found && [...pinned, ...found.topics.filter((/** @type {any} */ one) => !names.has(one.name))];
    const stuck = pins();
    return [
      heading('Topics', context.shared.node ? h('span', null, count(context.shared.node.topics)) : null, [
        finder({ label: 'Search topics' }),
        chooser({ label: 'Kind', name: 'kind', options: [['', 'All'], ['stream', 'Streams'], ['queue', 'Queues'], ['compacted', 'Compacted'], ['table', 'Tables']] }),
        button('Create topic', createTopic, 'primary'),
      ]),
      table({
        label: 'Topics', rows, key: (one) => one.name, href: (one) => to(['topic', one.name], { ns: context.query.ns }), sorted: context.query.sort ?? 'name',
        empty: isSearch ? `No topic has ${context.query.search} in its name.` : 'There is no topic yet.',
        columns: [
          { title: 'Name', sort: 'name', kind: 'strong', cell: (one) => h('a', { href: to(['topic', one.name], { ns: context.query.ns }) }, one.name) },
          { title: 'Kind', rank: 2, cell: (one) => tag(one.kind, one.kind === 'stream' ? '' : 'plain') },
          { title: 'In', number: true, cell: (one) => rateOf(rates[one.name]) },
          { title: 'Last minutes', rank: 3, cell: (one) => spark(rates[one.name] ?? [], `Records a second in ${one.name}`) },
          { title: 'Records', sort: 'records', number: true, cell: (one) => count(one.records) },
          { title: 'Size', sort: 'bytes', number: true, rank: 2, cell: (one) => bytes(one.bytes) },
          { title: 'Partitions', sort: 'partitions', number: true, rank: 3, cell: (one) => count(one.partitions) },
          { title: '', kind: 'tools', rank: 2, cell: (one) => h('button', {
            type: 'button', class: 'quiet', 'aria-pressed': String(stuck.includes(one.name)), onclick: () => pin(one.name), 'aria-label': `Pin ${one.name}`,
            title: stuck.includes(one.name) ? 'Unpin' : 'Pin to the top, in this browser' }, stuck.includes(one.name) ? '★' : '☆') },
        ],
      }),
      pager({ next: found?.next, shown: rows?.length ?? 0, what: 'topics' }),
    ];
  }

  return { title: () => 'Topics', every: 3000, refresh, view };
}

/** @param {any[]|undefined} values */
function rateOf(values) {
  const last = (values ?? []).slice(-5);
  const rate = last.reduce((sum, value) => sum + (value ?? 0), 0) / Math.max(1, last.length);
  return rate ? h('span', null, `${short(Math.round(rate * 10) / 10)}/s`) : h('span', { class: 'muted' }, '0');
}

function createTopic() {
  ask({
    title: 'Create a topic', action: 'Create',
    fields: [
      { name: 'name', label: 'Name', required: true },
      { name: 'partitions', label: 'Partitions', type: 'number', value: '1' },
      { name: 'retention', label: 'Keep records for', type: 'choice', value: '604800000',
        options: [['3600000', 'an hour'], ['86400000', 'a day'], ['604800000', 'a week'], ['2592000000', '30 days'], ['-1', 'ever']] },
      { name: 'compacted', label: 'Keep the newest record of each key (compaction)', type: 'check' },
    ],
    submit: async (values) => {
      await request('POST', 'v1/topics', { name: values.name, partitions: numberOf(values.partitions) ?? 1, config: {
        'retention.ms': values.retention, ...(values.compacted ? { 'cleanup.policy': 'compact' } : {}) } });
      location.hash = to(['topic', values.name]);
      return `Topic ${values.name} is created.`;
    },
  });
}
