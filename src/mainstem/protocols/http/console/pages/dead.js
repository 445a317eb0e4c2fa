/** Why did they die, and can they go back? Dead letters grouped by reason, origin and error. */

import { change, here, search } from '../core/address.js';
import { at, get, request } from '../core/api.js';
import { bar, columns } from '../core/chart.js';
import { h } from '../core/dom.js';
import { button, heading, panel, tag } from '../core/facts.js';
import { ask, attempt, numberOf } from '../core/form.js';
import { ago, count } from '../core/format.js';
import { finder, table } from '../core/table.js';
import { messageTable } from './messages.js';

const LOOKED_MAX = 2_000, PAGE = 500, SHOWN = 50, PARTS = 24;

/** @param {import('../app.js').Context} context @returns {import('../app.js').Page} */
export function page(context) {
  /** @type {any} */ let places = null;
  /** @type {any[]} */ let letters = [];
  /** @type {any[]} */ let redrives = [];
  let isCut = false, of = '', error = '';

  /** @param {AbortSignal} signal */
  async function refresh(signal) {
    const { queue, ns, where } = context.query;
    [places, { redrives }] = await Promise.all([get('v1/dead-letters', undefined, { signal }), get('v1/redrives', undefined, { signal })]);
    const at_ = queue ?? places.places[0]?.queue;
    if (!at_) return;
    of = at_;
    const found = [];
    error = '';
    let after = '';
    isCut = false;
    do {
      const said = await get(`${at('queues', at_)}/messages`, { namespace: ns ?? places.places.find((/** @type {any} */ one) => one.queue === at_)?.namespace, where, after, limit: PAGE }, { signal, exact: true });
      found.push(...said.messages);
      after = said.next ? new URLSearchParams(said.next.split('?', 2)[1]).get('after') ?? '' : '';
      isCut = Boolean(after);
    } while (after && found.length < LOOKED_MAX);
    letters = found;
  }

  function view() {
    const ns = context.query.ns ?? places?.places.find((/** @type {any} */ one) => one.queue === of)?.namespace;
    const chosen = here().query.group;
    const groups = grouped(letters);
    const shown = chosen ? letters.filter((one) => groupOf(one) === chosen) : letters;
    return [
      heading('Dead letters', places ? h('span', { class: 'live' }, `${count(places.letters)} in ${count(places.places.length)} ${places.places.length === 1 ? 'queue' : 'queues'}`) : null, [
        places?.places.length > 1 ? h('label', null, h('span', { class: 'unseen' }, 'Queue'), h('select', { value: of, onchange: (/** @type {any} */ event) => change({ queue: event.target.value, group: '', open: '' }) },
          places.places.map((/** @type {any} */ one) => h('option', { value: one.queue, selected: one.queue === of }, `${one.queue} (${one.letters})`)))) : null,
        finder({ label: 'Where', name: 'where', placeholder: "customer > 100 (over headers)" }),
        of ? button('Send back', () => redrive(of, ns, shown, chosen, context), 'primary', { disabled: !shown.length }) : null,
      ]),
      error ? h('p', { class: 'error' }, error) : null,
      redrives.filter((one) => one.state === 'running' || context.query.redrive === String(one.number)).map((one) => progress(one, context)),
      places && !places.places.length ? h('div', { class: 'panel' }, h('p', { class: 'empty' }, 'No queue sends what it gives up anywhere. Declare one with a queue for dead letters.')) : [
        panel(`Why, in ${of || '…'}`, table({
          label: 'Reasons', rows: places ? groups : null, key: (one) => one.name, sorted: 'none', empty: 'Nothing has died.',
          tone: (one) => one.name === chosen ? 'opened' : '',
          columns: [
            { title: 'Letters', number: true, cell: (one) => h('b', null, count(one.letters.length)) },
            { title: 'Reason', cell: (one) => [tag(one.reason, 'bad'), ' ', h('span', null, `from ${one.origin}`)] },
            { title: 'Error', kind: 'strong', rank: 2, cell: (one) => h('span', { class: 'mono' }, one.error || '-') },
            { title: 'When', rank: 3, cell: (one) => columns({ values: overTime(one.letters), label: 'Deaths over time', titles: (index) => `part ${index + 1} of ${PARTS}` }) },
            { title: 'Since', rank: 2, cell: (one) => `${ago(one.first)} ago` },
            { title: '', kind: 'tools', cell: (one) => [
              h('button', { type: 'button', 'aria-pressed': String(one.name === chosen), onclick: () => change({ group: one.name === chosen ? '' : one.name, open: '' }) }, one.name === chosen ? 'All' : 'Open'), ' ',
              button('Send back', () => redrive(of, ns, one.letters, one.name, context), '', { 'aria-label': `Send back those ${one.reason} from ${one.origin}` })] },
          ],
        }), isCut ? h('span', { class: 'muted' }, `the first ${count(letters.length)}`) : null),
        panel(chosen ? `Letters: ${chosen.split('\u0001').filter(Boolean).join(', ')}` : 'Letters', messageTable(places ? shown.slice(0, SHOWN) : null, of, ns, context, 'Nothing has died.'),
          shown.length > SHOWN ? h('span', { class: 'muted' }, `${SHOWN} of ${count(shown.length)}`) : null)],
    ];
  }

  return { title: () => 'Dead letters', every: 3000, refresh, view };
}

/** @param {any} one */
function groupOf(one) {
  return [one.origin?.reason ?? 'unknown', one.origin?.queue ?? '', (one.origin?.error ?? '').slice(0, 80)].join('\u0001');
}

/** @param {any[]} letters */
function grouped(letters) {
  /** @type {Map<string, any[]>} */
  const found = new Map();
  for (const one of letters) found.set(groupOf(one), [...(found.get(groupOf(one)) ?? []), one]);
  return [...found].map(([name, members]) => {
    const [reason, origin, error] = name.split('\u0001');
    const times = members.map((one) => one.origin?.died_ms ?? one.timestamp_ms);
    return { name, reason, origin, error, letters: members, first: Math.min(...times) };
  }).sort((a, b) => b.letters.length - a.letters.length);
}

/** @param {any[]} letters */
function overTime(letters) {
  const times = letters.map((one) => one.origin?.died_ms ?? one.timestamp_ms), first = Math.min(...times);
  const width = Math.max(1, (Date.now() - first) / PARTS), values = Array(PARTS).fill(0);
  for (const ms of times) values[Math.min(PARTS - 1, Math.floor((ms - first) / width))]++;
  return values;
}

/** @param {any} one @param {any} context */
function progress(one, context) {
  return h('div', { class: `health ${one.state === 'failed' ? 'bad' : ''}`, role: 'status', key: `redrive${one.number}` },
    h('b', null, one.state === 'running' ? 'Sending back' : `Redrive ${one.state}`), h('span', null, `${count(one.moved)} went back, ${count(one.left)} stayed. ${one.error}`), bar(one.state === 'running' ? 0.5 : 1),
    one.state === 'running' ? button('Stop', () => attempt(async () => { await request('DELETE', at('redrives', one.number)); context.again(); })) : null);
}

/**
 * @param {string} queue @param {string|undefined} ns @param {any[]} letters those that are shown @param {string|undefined} group @param {any} context
 */
function redrive(queue, ns, letters, group, context) {
  const [reason, origin] = (group ?? '').split('\u0001');
  const { where } = here().query;
  const selection = { ...(reason ? { reason } : {}), ...(origin ? { origin } : {}), ...(where ? { where } : {}) };
  const wishOf = (/** @type {any} */ values) => ({ ...selection, rate: numberOf(values.rate) ?? 100, times_max: numberOf(values.times) ?? 3, ...(values.limit ? { limit: numberOf(values.limit) } : {}), ...(values.to ? { to_queue: values.to } : {}) });
  ask({
    title: 'Send dead letters back', action: 'Send back',
    text: reason ? `Those that were ${reason}${origin ? ` in ${origin}` : ''}, whatever the error.` : `All of ${queue}.`,
    fields: [
      { name: 'limit', label: 'How many, at most', type: 'number', value: '', hint: 'Empty: all. Try 1 first.' },
      { name: 'rate', label: 'Letters a second', type: 'number', value: '50' },
      { name: 'to', label: 'To queue', value: '', hint: 'Empty: to the queue in which each one died.' },
      { name: 'times', label: 'One that was sent back so often stays', type: 'number', value: '3' },
    ],
    preview: async (values) => {
      const times = numberOf(values.times) ?? 3;
      const fitting = letters.filter((one) => !origin || one.origin?.queue === origin).filter((one) => !reason || one.origin?.reason === reason);
      const going = fitting.filter((one) => one.redriven < times && (values.to || one.origin?.queue) && !one.given_out);
      const limit = numberOf(values.limit) ?? Infinity;
      /** @type {Map<string, number>} */
      const targets = new Map();
      for (const one of going.slice(0, limit)) targets.set(values.to || one.origin.queue, (targets.get(values.to || one.origin.queue) ?? 0) + 1);
      return [h('b', null, `${count(Math.min(limit, going.length))} would go, ${count(fitting.length - going.length)} would stay`), ' of those that are shown here.',
        h('ul', null, [...targets].map(([name, many]) => h('li', null, `${count(many)} to ${name}`)))];
    },
    submit: async (values) => {
      const said = await request('POST', `${at('queues', queue)}/redrive${search({ namespace: ns })}`, wishOf(values));
      change({ redrive: said.number, open: '' }, true);
      context.again();
      return 'They are on their way.';
    },
  });
}
