/** What several pages show of consumers, alarms and records. */

import { to } from '../core/address.js';
import { spark } from '../core/chart.js';
import { h } from '../core/dom.js';
import { tag } from '../core/facts.js';
import { count, duration } from '../core/format.js';
import { table } from '../core/table.js';

const KINDS = /** @type {Record<string, string>} */ ({ group: 'group', 'share-group': 'share group', queue: 'queue', subscription: 'subscription' });

/** Where a consumer is looked at. @param {any} one */
export function consumerHref(one) {
  if (one.kind === 'queue') return to(['queue', one.name], one.namespace === 'default' ? {} : { ns: one.namespace });
  if (one.kind === 'subscription') return to(['topic', one.topic, 'consumers']);
  return to(['group', one.name]);
}

/**
 * Consumers of all protocols in one list, in seconds. @param {any[]|null} rows @param {string} empty @param {boolean} [ofTopic] all of one topic
 */
export function behindTable(rows, empty, ofTopic) {
  return table({
    label: 'Consumers', rows, empty, key: (one) => `${one.kind} ${one.name} ${one.topic}`, href: consumerHref, sorted: 'none',
    columns: [
      { title: 'Name', kind: 'strong', cell: (one) => h('a', { href: consumerHref(one) }, one.name) },
      ...(ofTopic ? [] : [{ title: 'Topic', rank: /** @type {2} */ (2), cell: (/** @type {any} */ one) => h('a', { href: to(['topic', one.topic, 'consumers']) }, one.topic) }]),
      { title: 'Kind', rank: 2, cell: (one) => [tag(KINDS[one.kind] ?? one.kind), one.queries.length ? [' ', tag('Spark')] : null] },
      { title: 'Members', number: true, rank: 3, cell: (one) => one.members === 0 ? h('span', { class: 'warn-text' }, 'none') : count(one.members) },
      { title: 'Behind', number: true, cell: (one) => h('b', { class: one.lag_seconds > 300 ? 'warn-text' : '' }, duration(one.lag_seconds)) },
      { title: 'Messages', number: true, cell: (one) => count(one.lag_messages) },
      { title: 'Last 15 min', rank: 2, cell: (one) => spark(one.history.map((/** @type {any} */ point) => point[1]), `Lag of ${one.name}: ${one.trend}`) },
      { title: 'State', rank: 3, cell: stateOf },
    ],
  });
}

/** In a word or two. @param {any} one */
function stateOf(one) {
  if (one.stuck_since_ms) return tag(`stuck for ${duration((Date.now() - one.stuck_since_ms) / 1000)}`, 'bad');
  if (one.retention_overtakes_in_ms !== null) return tag(`retention in ${duration(one.retention_overtakes_in_ms / 1000)}`, 'warn');
  if (one.overtaken_messages) return tag(`${count(one.overtaken_messages)} lost`, 'bad');
  if (one.trend === 'growing') return tag(`growing ${count(one.lag_change_per_second)}/s`, 'warn');
  return h('span', { class: 'muted' }, one.lag_messages ? one.trend : 'up to date');
}

/** An alarm in words. @param {any} alarm */
export function sentenceOf(alarm) {
  const value = alarm.value;
  switch (alarm.measure) {
    case 'group_lag_seconds': return `${alarm.subject} is ${duration(value)} behind.`;
    case 'dead_letters': return `${count(value)} dead letters wait in ${alarm.subject}.`;
    case 'disk_free_bytes': return `Only ${count(value / 1e6)} MB of the disk are free.`;
    case 'appends_refused': return 'The disk is full: no records are taken.';
    case 'pipelines_failed': return `Pipeline ${alarm.subject} has failed.`;
    default: return `${alarm.rule}: ${alarm.measure}${alarm.subject ? ` of ${alarm.subject}` : ''} is ${count(value)}.`;
  }
}
