/** One group: why is it behind, who holds what, where does it stand, and where shall it go on? */

import { to } from '../core/address.js';
import { at, get, request } from '../core/api.js';
import { chart } from '../core/chart.js';
import { plain, preview as line } from '../core/content.js';
import { h } from '../core/dom.js';
import { button, card, heading, panel, tag } from '../core/facts.js';
import { ask, numberOf } from '../core/form.js';
import { ago, count, duration, moment, time } from '../core/format.js';
import { table } from '../core/table.js';

const HISTORY_STEP_MS = 15_000, SHOWN = 200;

/** @param {import('../app.js').Context} context @returns {import('../app.js').Page} */
export function page(context) {
  const name = context.path[1] ?? '';
  /** @type {any} */ let group = null;
  /** @type {any[]} */ let readings = [];
  /** @type {Map<string, any>} */ const standing = new Map();

  /** @param {AbortSignal} signal */
  async function refresh(signal) {
    const [document, all] = await Promise.all([
      get(at('groups', name), { limit: SHOWN }, { signal }), get('v1/consumers', { search: name, limit: 100 }, { signal })]);
    group = document;
    readings = all.consumers.filter((/** @type {any} */ one) => one.name === name && one.kind !== 'queue');
    // The record at which it stands: of the partition that is longest behind.
    const worst = [...group.offsets].filter((one) => one.lag_messages > 0).sort((a, b) => (b.lag_seconds ?? 0) - (a.lag_seconds ?? 0))[0];
    standing.forEach((_, key) => { if (key !== placeOf(worst)) standing.delete(key); });
    if (worst && !standing.has(placeOf(worst))) {
      const { records } = await get(`${at('topics', worst.topic)}/records`, { partition: worst.partition, offset: Math.max(worst.offset, worst.start), limit: 1 }, { signal, exact: true });
      standing.set(placeOf(worst), { ...worst, record: records[0] });
    }
  }

  function view() {
    if (!group) return [heading(name, null, null, [['Consumers', to(['consumers'])]]), h('p', { class: 'empty' }, 'Loading …')];
    const stuck = readings.map((one) => one.stuck_since_ms).filter(Boolean).sort()[0];
    const last = Math.max(0, ...group.offsets.map((/** @type {any} */ one) => one.committed_ms ?? 0));
    const [held] = [...standing.values()];
    return [
      heading(name, [tag(group.is_shared ? 'share group' : 'group'), tag(group.state, group.state === 'stable' ? '' : 'warn'), group.protocol ? h('span', null, group.protocol) : null], [
        button('Rewind', () => seek(group, context), 'primary'), button('Delete', () => destroy(name), '', { disabled: group.members.length > 0, title: group.members.length ? 'It has members.' : '' }),
      ], [['Consumers', to(['consumers'])]]),
      stuck ? h('div', { class: 'health warn', role: 'status' }, h('b', null, `Stuck for ${ago(stuck)}.`), group.members.length ? 'It has members, and has not moved.' : 'It has no members: nobody reads.') : null,
      h('div', { class: 'cards four' },
        card('Behind', duration(group.lag_seconds), '', { tone: group.lag_seconds > 300 ? 'warn' : '' }),
        card('Messages', count(group.lag_messages)),
        card('Members', count(group.members.length), '', { tone: group.members.length ? '' : 'warn' }),
        card('Last commit', last ? ago(last) : '-', last ? 'ago' : '')),
      h('div', { class: 'pair even' },
        panel('Lag, 15 minutes', lagChart(readings, context)),
        panel('Where it stands', held ? standsAt(held, group) : h('p', { class: 'muted' }, 'At the end: there is nothing before it.'))),
      panel('Members', table({
        label: 'Members', rows: group.members, key: (one) => one.id, sorted: 'none', empty: 'No member is there.',
        columns: [
          { title: 'Member', kind: 'strong', cell: (one) => one.client_id || one.id }, { title: 'From', rank: 2, cell: (one) => one.client_host ?? '' },
          { title: 'Holds', cell: (one) => one.assigned.map((/** @type {any} */ part) => `${part.topic}/${part.partitions.join(',')}`).join('  ') || h('span', { class: 'muted' }, 'nothing') },
        ],
      })),
      panel('Partitions', table({
        label: 'Partitions', rows: group.offsets, key: placeOf, sorted: 'none', empty: 'It has no offsets.',
        columns: [
          { title: 'Topic', kind: 'strong', cell: (one) => h('a', { href: to(['topic', one.topic]) }, one.topic) },
          { title: 'Partition', number: true, cell: (one) => one.partition },
          { title: 'Offset', number: true, rank: 2, cell: (one) => h('a', { href: to(['topic', one.topic], { partition: one.partition, offset: one.offset }) }, count(one.offset)) },
          { title: 'End', number: true, rank: 3, cell: (one) => count(one.end) },
          { title: 'Messages', number: true, cell: (one) => count(one.lag_messages) },
          { title: 'Behind', number: true, cell: (one) => duration(one.lag_seconds) },
          { title: 'Committed', rank: 2, cell: (one) => one.committed_ms ? `${ago(one.committed_ms)} ago` : '' },
          { title: 'Held by', rank: 3, cell: (one) => holder(group, one) },
        ],
      }), group.next ? h('span', { class: 'muted' }, `the first ${SHOWN}`) : null),
    ];
  }

  return { title: () => name, every: 3000, refresh, view };
}

/** @param {any} one */
function placeOf(one) {
  return one ? `${one.topic}:${one.partition}:${one.offset}` : '';
}

/** @param {any} group @param {any} place */
function holder(group, place) {
  const found = group.members.find((/** @type {any} */ one) => one.assigned.some((/** @type {any} */ part) => part.topic === place.topic && part.partitions.includes(place.partition)));
  return found ? found.client_id || found.id : h('span', { class: 'muted' }, 'nobody');
}

/** @param {any[]} readings @param {any} context */
function lagChart(readings, context) {
  const lines = readings.filter((one) => one.history.length > 1).slice(0, 6).map((one) => ({ name: one.topic, values: one.history.map((/** @type {any} */ point) => point[1]) }));
  if (!lines.length) return h('p', { class: 'muted' }, 'It is drawn from the second sample on: within 30 seconds.');
  const end = Math.max(...readings.flatMap((one) => one.history.map((/** @type {any} */ point) => point[0])));
  return chart({ name: 'lag', label: 'Lag in messages', lines, end, step: HISTORY_STEP_MS, format: count, redraw: context.redraw, height: 180 });
}

/** @param {any} held @param {any} group */
function standsAt(held, group) {
  return [
    h('p', null, 'Next record: ', h('a', { href: to(['topic', held.topic], { partition: held.partition, offset: held.offset, open: `${held.partition}:${held.record?.offset ?? held.offset}` }) }, `${held.topic}/${held.partition} at ${count(held.record?.offset ?? held.offset)}`), ', held by ', holder(group, held), '.'),
    held.record ? [h('p', { class: 'muted' }, `published ${time(held.record.time_ms)}, ${ago(held.record.time_ms)} ago${held.record.key === null ? '' : `, key ${plain(held.record.key)}`}`), h('pre', { class: 'content' }, line(held.record))] : null,
  ];
}

/** @param {any} group @param {any} context */
function seek(group, context) {
  const wish = (/** @type {any} */ values, /** @type {boolean} */ dry_run) => {
    /** @type {any} */
    const said = { dry_run, ...(values.topic ? { topics: [values.topic] } : {}) };
    if (values.to === 'start' || values.to === 'end') said.to = values.to;
    else if (values.to === 'by') said.by = numberOf(values.by);
    else if (values.to === 'offset') { said.offset = numberOf(values.offset); said.partition = numberOf(values.partition); } else {
      said.time_ms = moment(values.time);
      if (said.time_ms === null) throw new Error(`${values.time} is not a time`);
    }
    return request('POST', `${at('groups', group.name)}/seek`, said);
  };
  const topics = [...new Set(group.offsets.map((/** @type {any} */ one) => one.topic))];
  ask({
    title: `Rewind ${group.name}`, action: 'Move', danger: true, confirm: group.name, text: group.members.length ? 'It has members. End them first: while they run they would go on from where they are.' : 'It goes on from there when a member comes.',
    fields: [
      { name: 'to', label: 'To', type: 'choice', value: 'time', options: [['time', 'a time'], ['start', 'the start'], ['end', 'the end'], ['by', 'so many records on or back'], ['offset', 'an offset of a partition']] },
      { name: 'time', label: 'Time (UTC)', value: '1h', hint: '15m or 2h ago, 14:03:20, yesterday 14:03, 2026-11-18 14:03', when: (values) => values.to === 'time' },
      { name: 'by', label: 'Records, negative for back', type: 'number', value: '-100', when: (values) => values.to === 'by' },
      { name: 'offset', label: 'Offset', type: 'number', value: '0', when: (values) => values.to === 'offset' },
      { name: 'partition', label: 'Partition', type: 'number', value: '0', when: (values) => values.to === 'offset' },
      { name: 'topic', label: 'Topic', type: 'choice', value: '', options: [['', 'all that it reads'], ...topics.map((one) => /** @type {[string, string]} */ ([one, one]))] },
    ],
    preview: async (values) => {
      const { moves } = await wish(values, true);
      const again = moves.reduce((/** @type {number} */ sum, /** @type {any} */ one) => sum + Math.max(0, (one.before ?? one.after) - one.after), 0);
      const left = moves.reduce((/** @type {number} */ sum, /** @type {any} */ one) => sum + Math.max(0, one.after - (one.before ?? one.after)), 0);
      return [h('b', null, `${count(again)} records are read again, ${count(left)} are passed over.`),
        h('ul', null, moves.slice(0, 8).map((/** @type {any} */ one) => h('li', null, `${one.topic}/${one.partition}: ${one.before === null ? 'nowhere' : count(one.before)} → ${count(one.after)}`))),
        moves.length > 8 ? `and ${moves.length - 8} partitions more` : null];
    },
    submit: async (values) => { const { moves } = await wish(values, false); context.again(); return `${group.name} moved in ${count(moves.length)} partitions.`; },
  });
}

/** @param {string} name */
function destroy(name) {
  ask({
    title: `Delete ${name}`, text: 'Its offsets go.', action: 'Delete', danger: true, confirm: name,
    submit: async () => { await request('DELETE', at('groups', name)); location.hash = to(['consumers']); return `Group ${name} is deleted.`; },
  });
}
