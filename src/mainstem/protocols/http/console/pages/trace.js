/** Where did it go? One message on a time line: published, read, given out, died, edited, sent back, scheduled. */

import { change, here, to } from '../core/address.js';
import { at, get } from '../core/api.js';
import { plain } from '../core/content.js';
import { h } from '../core/dom.js';
import { heading, panel, tag } from '../core/facts.js';
import { count, duration, time } from '../core/format.js';
import { table } from '../core/table.js';

const WORDS = /** @type {Record<string, [string, string]>} */ ({
  published: ['published', ''], read: ['read by', ''], unread: ['not yet read by', 'plain'], settled: ['settled in', ''], given: ['given out by', 'warn'],
  waits: ['waits in', 'plain'], retry: ['failed in', 'warn'], dead: ['died in', 'bad'], edited: ['edited', 'warn'], redriven: ['sent back to', ''], scheduled: ['scheduled to', 'plain'],
});

/** @param {import('../app.js').Context} context @returns {import('../app.js').Page} */
export function page(context) {
  /** @type {any} */ let found = null;
  let asked = '', took = 0;

  /** @param {AbortSignal} signal */
  async function refresh(signal) {
    const { id, topic, by, ns } = here().query, now = JSON.stringify([id, topic, by, ns]);
    if (!id) { found = null; asked = ''; return; }
    if (now !== asked) found = null;
    asked = now;
    const begun = performance.now();
    found = await get(at('trace', id), { topic, by, namespace: ns }, { signal });
    took = performance.now() - begun;
  }

  function view() {
    const { query } = here();
    return [
      heading('Trace', found ? h('span', null, `${count(found.records.length)} ${found.records.length === 1 ? 'record' : 'records'} of this message`) : null),
      form(query, context),
      !query.id ? h('div', { class: 'panel' }, h('p', { class: 'empty' }, 'Paste a traceparent from a log line, a key, a message id, or TOPIC:PARTITION:OFFSET.'))
        : !found ? h('p', { class: 'empty' }, 'Looking …')
          : !found.records.length && !found.stations.length ? h('div', { class: 'panel' }, h('p', { class: 'empty' }, found.complete ? 'Nothing by this name is in the log.' : `Not among the newest ${count(found.scanned)} records. Name the topic to look further back.`))
            : [panel('Where it went', line(found.stations), found.complete ? null : h('span', { class: 'muted' }, 'among the newest records; name the topic to look further back')), panel('Its records', recordTable(found.records)),
              h('p', { class: 'muted' }, `Looked at ${count(found.scanned)} records in ${(took / 1000).toFixed(2)} s.`)],
    ];
  }

  return { title: () => 'Trace', every: 5000, refresh, view };
}

/** @param {Record<string, string>} query @param {any} context */
function form(query, context) {
  /** @param {any} event */
  const submit = (event) => {
    event.preventDefault();
    const { id, topic, by } = event.target.elements;
    change({ id: id.value.trim(), topic: topic.value.trim(), by: by.checked ? 'key' : '' });
    context.again();
  };
  return h('form', { class: 'bar-of-tools', role: 'search', 'aria-label': 'Trace', onsubmit: submit },
    h('div', { class: 'field grow' }, h('label', { for: 'id' }, 'Message'), h('input', { id: 'id', name: 'id', class: 'broad', value: query.id ?? '', placeholder: '00-4bf92f35…, c42, orders:0:7', autocomplete: 'off', spellcheck: 'false' })),
    h('div', { class: 'field' }, h('label', { for: 'topic' }, 'Only in topic'), h('input', { id: 'topic', name: 'topic', value: query.topic ?? '', autocomplete: 'off', spellcheck: 'false' })),
    h('label', { class: 'check' }, h('input', { type: 'checkbox', name: 'by', checked: query.by === 'key' }), h('span', null, 'it is a key')),
    h('button', { type: 'submit', class: 'primary' }, 'Trace'));
}

/** @param {any} place */
function placeHref(place) {
  return to(['topic', place.topic], { ns: place.namespace === 'default' ? '' : place.namespace, partition: place.partition, offset: place.offset, open: `${place.partition}:${place.offset}` });
}

/** @param {any[]} stations */
function line(stations) {
  const times = stations.filter((one) => one.time_ms !== null);
  return h('ol', { class: 'line-of-time' }, stations.map((one, index) => {
    const before = times[times.indexOf(one) - 1], [word, tone] = WORDS[one.what] ?? [one.what, ''];
    return h('li', { key: `${index} ${one.what}`, class: one.time_ms === null ? 'still' : '' },
      h('span', { class: 'time' }, one.time_ms === null ? h('span', { class: 'muted' }, 'now') : time(one.time_ms)),
      h('span', { class: 'after muted number' }, before && one.time_ms !== null ? `+${duration((one.time_ms - before.time_ms) / 1000)}` : ''),
      h('span', { class: 'what' }, tag(word, tone), ' ', one.who ? h('b', { class: 'name' }, one.what === 'published' ? `as ${one.who}` : one.who) : null, ' ', h('span', null, one.detail)),
      one.place ? h('a', { class: 'where mono', href: placeHref(one.place) }, `${one.place.topic} ${one.place.partition}:${one.place.offset}`) : null);
  }));
}

/** @param {any[]} records */
function recordTable(records) {
  return table({
    label: 'Records', rows: records, key: (one) => `${one.place.topic} ${one.place.partition}:${one.place.offset}`, sorted: 'none', href: (one) => placeHref(one.place),
    columns: [
      { title: 'Topic', kind: 'strong', cell: (one) => h('a', { href: placeHref(one.place) }, one.place.topic) }, { title: 'Place', number: true, cell: (one) => `${one.place.partition}:${one.place.offset}` },
      { title: 'Time (UTC)', kind: 'time', rank: 2, cell: (one) => time(one.time_ms) }, { title: 'Key', kind: 'key', rank: 2, cell: (one) => plain(one.key) },
      { title: 'traceparent', rank: 3, cell: (one) => h('span', { class: 'mono' }, one.traceparent) },
    ],
  });
}
