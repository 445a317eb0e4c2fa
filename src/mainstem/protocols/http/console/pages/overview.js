/** Is all well? */

import { to } from '../core/address.js';
import { get } from '../core/api.js';
import { chart } from '../core/chart.js';
import { h } from '../core/dom.js';
import { card, heading, panel, tag } from '../core/facts.js';
import { bytes, bytesParts, count, duration, short, time } from '../core/format.js';
import { chooser } from '../core/table.js';
import { behindTable, sentenceOf } from './parts.js';

/** Drawn first, the last one before all. */
const FIRST = ['amqp', 'kafka'];
const KEPT = 900, SLOW_MS = 5_000;
const RANGES = /** @type {[string, string][]} */ ([['', '2 min'], ['15m', '15 min'], ['24h', '24 h']]);
const POINTS = /** @type {Record<string, number>} */ ({ '': 120, '15m': 900, '24h': 1440 });

/** @param {import('../app.js').Context} context @returns {import('../app.js').Page} */
export function page(context) {
  /** @type {any} */ let live = null;
  /** @type {any} */ let minutes = null;
  /** @type {any} */ let consumers = null;
  /** @type {any[]} */ let redrives = [];
  let slow = 0;

  /** @param {AbortSignal} signal */
  async function refresh(signal) {
    const isDay = context.query.range === '24h';
    const [now, day] = await Promise.all([
      get('v1/live', live ? { after: live.sequence, topics: 8 } : { topics: 8 }, { signal }),
      isDay && Date.now() - (minutes?.taken ?? 0) > 30_000 ? get('v1/live', { resolution: 'minute', topics: 1 }, { signal }) : null,
    ]);
    live = live && now.sequence >= live.sequence ? grown(live, now) : now;
    if (day) minutes = { ...day, taken: Date.now() };
    if (Date.now() - slow < SLOW_MS) return;
    slow = Date.now();
    const [behind, sent] = await Promise.all([get('v1/consumers', { limit: 8 }, { signal }), get('v1/redrives', undefined, { signal })]);
    consumers = behind; redrives = sent.redrives;
  }

  return { title: () => 'Overview', every: 1000, refresh, view: () => view(context, live, minutes, consumers, redrives) };
}

/** @param {any} was @param {any} now */
function grown(was, now) {
  const join = (/** @type {any} */ a, /** @type {any} */ b) => {
    /** @type {any} */
    const all = {};
    for (const name in b) all[name] = [...(a[name] ?? []), ...b[name]].slice(-KEPT);
    for (const name in a) if (!(name in b)) all[name] = a[name];
    return all;
  };
  return { ...now, series: join(was.series, now.series), topics: join(was.topics, now.topics) };
}

/** The sum of series of one kind, without those of our own looking. @param {any} live @param {string} kind */
function total(live, kind) {
  return Object.entries(live.series).filter(([name]) => name.startsWith(`${kind}.`) && !/\.(http|management)/.test(name))
    .reduce((sum, [, values]) => sum + (values.at(-1) ?? 0), 0);
}

/** @param {any} context @param {any} live @param {any} minutes @param {any} consumers @param {any[]} redrives */
function view(context, live, minutes, consumers, redrives) {
  const { node, alarms } = context.shared;
  const top = heading('Overview', node ? [h('span', null, `node ${node.node_id}`), h('span', null, `version ${node.version}`)] : null);
  if (!live) return [top, h('p', { class: 'empty' }, 'Loading …')];
  const worst = consumers?.consumers[0];
  const letters = alarms.filter((/** @type {any} */ one) => one.measure === 'dead_letters').reduce((/** @type {number} */ sum, /** @type {any} */ one) => sum + one.value, 0);
  const connected = node ? node.listeners.reduce((/** @type {number} */ sum, /** @type {any} */ one) => sum + one.connections, 0) : null;
  const disk = live.series['storage.disk_free_bytes']?.at(-1);
  const [inValue, inUnit] = bytesParts(total(live, 'received_bytes')), [outValue, outUnit] = bytesParts(total(live, 'sent_bytes'));
  const [diskValue, diskUnit] = bytesParts(disk);
  return [
    top,
    health(context.shared, worst),
    h('div', { class: 'cards' },
      card('Published', inValue, `${inUnit}/s`, { more: h('div', { class: 'muted' }, `${short(live.series.records_in?.at(-1) ?? 0)} records/s`) }),
      card('Delivered', outValue, `${outUnit}/s`, { more: h('div', { class: 'muted' }, 'without HTTP') }),
      card('Worst lag', worst ? duration(worst.lag_seconds) : '0 s', '', {
        href: to(['consumers']), tone: worst?.lag_seconds > 300 ? 'warn' : '', more: h('div', { class: 'muted' }, worst ? worst.name : 'nobody is behind') }),
      card('Dead letters', count(letters), '', { href: to(['dead']), tone: letters ? 'warn' : '', more: h('div', { class: 'muted' }, letters ? 'wait for you' : 'none') }),
      card('Connections', count(connected), '', { href: to(['connections']), more: h('div', { class: 'muted' }, `${count(node?.topics)} topics`) }),
      card('Disk free', diskValue, diskUnit, { tone: disk < 2 ** 30 ? 'bad' : '', more: h('div', { class: 'muted' }, `${bytes(node?.storage.run_bytes ?? 0)} merged`) })),
    h('div', { class: 'pair' },
      panel('Traffic by protocol', traffic(context, live, minutes), chooser({ label: 'Time', name: 'range', options: RANGES })),
      panel('Busiest topics', busiest(live), h('a', { href: to(['topics'], { sort: 'bytes' }) }, 'all topics'))),
    panel('Who is behind', behindTable(consumers?.consumers.filter((/** @type {any} */ one) => one.lag_messages) ?? null, 'Nobody is behind.'), h('a', { href: to(['consumers']) }, 'all consumers')),
    panel('What changed', changes(alarms, redrives)),
  ];
}

/** @param {any} shared @param {any} worst */
function health(shared, worst) {
  const critical = shared.alarms.find((/** @type {any} */ one) => one.severity === 'critical') ?? shared.alarms[0];
  if (worst?.stuck_since_ms) {
    return h('div', { class: 'health warn', role: 'status' }, h('b', null, worst.name),
      h('span', null, `has not moved for ${duration((Date.now() - worst.stuck_since_ms) / 1000)} (${count(worst.lag_messages)} behind in ${worst.topic}).`),
      h('a', { href: to([worst.kind === 'queue' ? 'queue' : 'group', worst.name]) }, 'Look at it'));
  }
  if (critical) {
    return h('div', { class: `health ${critical.severity === 'critical' ? 'bad' : 'warn'}`, role: 'status' }, sentenceOf(critical), h('a', { href: to(['alarms']) }, 'Look at it'));
  }
  return h('div', { class: 'health', role: 'status' }, h('i', { class: 'dot' }), 'All is well: nobody is stuck, and no alarm is raised.');
}

/** @param {any} context @param {any} live @param {any} minutes */
function traffic(context, live, minutes) {
  const range = context.query.range ?? '', isDay = range === '24h';
  const source = isDay ? minutes : live;
  if (!source) return h('p', { class: 'empty' }, 'Loading …');
  const points = POINTS[range] ?? 120;
  const names = Object.keys(live.series).filter((name) => name.startsWith('received_bytes.')).map((name) => name.slice(15)).sort();
  const isUsed = (/** @type {string} */ name) => name === 'kafka' || name === 'amqp' || [`received_bytes.${name}`, `sent_bytes.${name}`].some((one) => source.series[one]?.some(Boolean));
  const lines = names.sort((a, b) => FIRST.indexOf(b) - FIRST.indexOf(a)).filter((name) => name !== 'http' && name !== 'management' && isUsed(name)).flatMap((name) => ['received_bytes', 'sent_bytes'].map((kind) => ({
    name: `${name} ${kind === 'received_bytes' ? 'in' : 'out'}`, values: padded(source.series[`${kind}.${name}`] ?? [], points), off: false })));
  return chart({
    name: `traffic${range}`, label: 'Traffic by protocol', lines: [...lines.slice(0, 5), {
      name: 'http', off: true, values: padded(source.series['sent_bytes.http'] ?? [], points) }],
    end: source.time_ms, step: source.interval_ms, format: (value) => `${bytes(value)}/s`, redraw: context.redraw,
  });
}

/** As many as the chart is wide: what was not measured is absent. @param {any[]} values @param {number} points */
function padded(values, points) {
  const last = values.slice(-points);
  return last.length < points ? [...Array(points - last.length).fill(null), ...last] : last;
}

/** @param {any} live */
function busiest(live) {
  const rates = Object.entries(live.topics).map(([name, values]) => ({ name, rate: mean(values.slice(-10)) }))
    .sort((a, b) => b.rate - a.rate).slice(0, 7);
  const top = Math.max(1, ...rates.map((one) => one.rate));
  if (!rates.length) return h('p', { class: 'empty' }, 'Nothing was published yet.');
  return h('ol', { class: 'ranking' }, rates.map((one) => h('li', { key: one.name },
    h('a', { href: to(['topic', one.name]), class: 'name' }, one.name), h('span', { class: 'number live' }, `${short(Math.round(one.rate * 10) / 10)}/s`),
    h('span', { class: 'bar', 'aria-hidden': 'true' }, h('i', { style: { width: `${(one.rate / top) * 100}%` } })))));
}

/** @param {any[]} values */
function mean(values) {
  return values.length ? values.reduce((sum, value) => sum + (value ?? 0), 0) / values.length : 0;
}

/** @param {any[]} alarms @param {any[]} redrives */
function changes(alarms, redrives) {
  const rows = [
    ...alarms.map((one) => ({ ms: one.since_ms, what: sentenceOf(one), tone: one.severity === 'critical' ? 'bad' : 'warn', kind: 'alarm', href: to(['alarms']) })),
    ...redrives.slice(0, 5).map((one) => ({ ms: 0, what: `Redrive ${one.number} of ${one.queue}: ${one.state}, ${count(one.moved)} sent back, ${count(one.left)} stayed.`, tone: one.state === 'failed' ? 'bad' : 'plain', kind: 'redrive', href: to(['dead'], { queue: one.queue }) })),
  ];
  if (!rows.length) return h('p', { class: 'muted' }, 'No alarm is raised, and nothing is sent back.');
  return h('ul', { class: 'changes' }, rows.map((row) => h('li', null, h('span', { class: 'time muted' }, row.ms ? time(row.ms).slice(0, 19) : ''), tag(row.kind, row.tone), h('a', { href: row.href }, row.what))));
}
