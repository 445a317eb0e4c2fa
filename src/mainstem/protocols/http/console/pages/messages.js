/** Messages of a queue, dead letters with their facts; opened, edited, sent back, deleted. */

import { change, here, search, to } from '../core/address.js';
import { at, request } from '../core/api.js';
import { plain, view as contentView } from '../core/content.js';
import { h } from '../core/dom.js';
import { button, copy, facts, tag } from '../core/facts.js';
import { ask, attempt } from '../core/form.js';
import { count, time } from '../core/format.js';
import { table } from '../core/table.js';

/** A message as a record: its value is text, which may be JSON. @param {any} message */
export function asRecord(message) {
  const { value } = message;
  if (value && typeof value === 'object') return { base64: value.base64 };
  if (value === null) return { value: null };
  try {
    const parsed = JSON.parse(value);
    if (parsed && typeof parsed === 'object' && JSON.stringify(parsed).length >= value.replace(/\s+/g, '').length - 2) return { value: parsed };
  } catch { /* plain text */ }
  return { text: String(value) };
}

/** @param {any[]|null} rows @param {string} queue @param {string|undefined} ns @param {any} context @param {string} empty */
export function messageTable(rows, queue, ns, context, empty) {
  const hasLetters = rows?.some((one) => one.origin);
  return table({
    label: `Messages of ${queue}`, rows, key: (one) => one.place, opened: here().query.open ?? null, onopen: (key) => change({ open: key }, true), sorted: 'none', empty,
    detail: (one) => detail(one, queue, ns, context),
    columns: [
      { title: 'Place', cell: (one) => one.place },
      { title: 'Time (UTC)', kind: 'time', rank: 2, cell: (one) => time(one.origin?.died_ms ?? one.timestamp_ms) },
      ...(hasLetters ? [
        { title: 'Why', kind: 'time', cell: (/** @type {any} */ one) => one.origin ? [tag(one.origin.reason, 'bad'), ' ', h('span', { class: 'muted' }, `from ${one.origin.queue}`)] : null },
        { title: 'Error', rank: /** @type {2} */ (2), kind: 'key', cell: (/** @type {any} */ one) => one.origin?.error },
        { title: 'Sent back', number: true, rank: /** @type {3} */ (3), cell: (/** @type {any} */ one) => count(one.redriven) }] : [
        { title: 'Key', kind: 'key', rank: /** @type {2} */ (2), cell: (/** @type {any} */ one) => plain(one.key) }]),
      { title: 'Value', kind: 'value', cell: (one) => plain(one.value).slice(0, 240) },
      { title: 'State', rank: 3, cell: (one) => one.given_out ? tag('with a consumer') : h('span', { class: 'muted' }, 'waits') },
    ],
  });
}

/** @param {any} one @param {string} queue @param {string|undefined} ns @param {any} context */
function detail(one, queue, ns, context) {
  const { origin } = one;
  const path = `${at('queues', queue)}/messages/${one.place}${search({ namespace: ns })}`;
  return h('div', { class: 'open-record' },
    h('div', null,
      contentView(asRecord(one), `${queue} ${one.place}`, context.redraw),
      origin ? h('div', null, h('h3', null, `${origin.reason} in ${origin.queue}`), h('p', { class: 'bad' }, origin.error),
        h('ol', { class: 'changes' }, origin.attempts.map((/** @type {any} */ attempted, /** @type {number} */ index) => h('li', null, h('span', { class: 'time muted' }, time(attempted.time_ms)), `attempt ${index + 1}`, h('span', null, attempted.error))))) : null,
      h('div', { class: 'actions' },
        button('Edit', () => edit(one, path, context)), button('Copy', () => attempt(() => copy(plain(one.value)), 'Copied.')),
        button('Delete', () => attempt(async () => { await request('DELETE', path); change({ open: '' }, true); context.again(); }, 'The message is settled.')),
        h('a', { href: to(['trace'], { id: origin?.topic ? `${origin.topic}:${origin.partition}:${origin.offset}` : `${queue}:${one.place}` }) }, 'Trace'))),
    h('div', { class: 'side-facts' }, facts([
      ['Place', one.place], ['Time', time(one.timestamp_ms)], ['Key', one.key === null ? 'none' : plain(one.key)],
      ...(origin ? /** @type {[any, any][]} */ ([
        ['Died', time(origin.died_ms)], ['Was at', origin.topic ? h('a', { href: to(['topic', origin.topic], { partition: origin.partition, offset: origin.offset, open: `${origin.partition}:${origin.offset}` }) }, `${origin.topic}/${origin.partition} ${origin.offset}`) : origin.queue],
        ['Deliveries', count(origin.deliveries)], ['Failures', count(origin.failures)], ['Sent back', count(one.redriven)]]) : []),
      .../** @type {[any, any][]} */ (one.deaths.map((/** @type {any} */ death) => [`died in ${death.queue}`, `${death.reason}, ${count(death.count)} times`])),
      .../** @type {[any, any][]} */ (Object.entries(one.headers).map(([name, value]) => [name, plain(value)]))])));
}

/** @param {any} one @param {string} path @param {any} context */
function edit(one, path, context) {
  const isText = typeof one.value === 'string' || one.value === null;
  const record = asRecord(one);
  const before = record.value ? JSON.stringify(record.value, null, 2) : isText ? one.value ?? '' : one.value.base64;
  ask({
    title: 'Edit the message', action: 'Save', wide: true, text: 'It moves to the end of its queue, with its history.',
    fields: [
      { name: 'value', label: isText ? 'Value' : 'Value, as base64', type: 'area', value: before },
      { name: 'headers', label: 'Headers to set', type: 'area', value: '', hint: 'One on a line, NAME: VALUE. NAME: with nothing behind it takes the header away.' },
    ],
    submit: async (values) => {
      /** @type {Record<string, string|null>} */
      const headers = {};
      for (const line of values.headers.split('\n').filter((/** @type {string} */ text) => text.trim())) {
        const place = line.indexOf(':');
        if (place < 1) throw new Error(`A header is NAME: VALUE, and this is ${line}`);
        headers[line.slice(0, place).trim()] = line.slice(place + 1).trim() || null;
      }
      let value = values.value;
      // What was JSON goes as it was written: in one line, checked.
      if (record.value && value !== before) value = JSON.stringify(JSON.parse(value));
      await request('PATCH', path, { ...(values.value === before ? {} : { value: isText ? value : { base64: value } }), headers });
      change({ open: '' }, true);
      context.again();
      return 'The message is changed, and stands at the end of its queue.';
    },
  });
}
