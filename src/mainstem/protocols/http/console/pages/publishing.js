/** Publish a record, now or later: from nothing, or from one that is there. */

import { search } from '../core/address.js';
import { at, request } from '../core/api.js';
import { editable, headerPairs, kindOf, plain, toValue } from '../core/content.js';
import { ask, numberOf } from '../core/form.js';
import { moment, time } from '../core/format.js';

/**
 * @param {string} topic
 * @param {{ns?: string, record?: any, later?: boolean, done?: () => void}} [o] `record`: begin with its content
 */
export function publish(topic, o = {}) {
  const { record } = o, kind = record ? kindOf(record) : 'json';
  ask({
    title: record ? (o.later ? 'Schedule a copy' : 'Send again') : `Publish to ${topic}`, action: o.later ? 'Schedule' : 'Publish', wide: true,
    fields: [
      { name: 'topic', label: 'Topic', value: topic, required: true, when: () => Boolean(record) },
      { name: 'key', label: 'Key', value: record ? keyText(record.key) : '', hint: 'Empty: no key.' },
      { name: 'kind', label: 'Kind of value', type: 'choice', value: kind, options: [['json', 'JSON'], ['text', 'Text'], ['base64', 'Bytes, as base64'], ['none', 'None (a tombstone)']] },
      { name: 'value', label: 'Value', type: 'area', value: record ? editable(record) : '{\n  \n}', when: (values) => values.kind !== 'none' },
      { name: 'headers', label: 'Headers', type: 'area', value: headerPairs(record?.headers).map(([name, value]) => `${name}: ${plain(value)}`).join('\n'), hint: 'One on a line, NAME: VALUE.' },
      { name: 'partition', label: 'Partition', type: 'number', value: '', hint: 'Empty: where the key belongs.' },
      { name: 'due', label: 'When', value: o.later ? '1h' : '', hint: 'Empty: now. Or a delay as 15m, 2h, or a time as 2026-12-24 18:00 (UTC).' },
    ],
    submit: async (values) => {
      /** @type {any} */
      const wish = { key: record && values.key === keyText(record.key) ? record.key : values.key === '' ? null : values.key, ...toValue(values.value, values.kind), headers: headersOf(values.headers) };
      if (values.partition !== '') wish.partition = numberOf(values.partition);
      Object.assign(wish, whenOf(values.due));
      const said = await request('POST', `${at('topics', values.topic || topic)}/records${search({ namespace: o.ns })}`, { records: [wish] });
      o.done?.();
      const [place] = said.positions;
      if (place.scheduled) return `It is published ${wish.due_ms ? `at ${time(wish.due_ms)}` : `in ${values.due}`}.`;
      return `Published: partition ${place.partition}, offset ${place.offset}.`;
    },
  });
}

/** @param {any} key */
function keyText(key) {
  return key === null || key === undefined ? '' : plain(key);
}

/** @param {string} text @returns {Record<string, string>} */
export function headersOf(text) {
  /** @type {Record<string, string>} */
  const headers = {};
  for (const line of text.split('\n')) {
    if (!line.trim()) continue;
    const place = line.indexOf(':');
    if (place < 1) throw new Error(`A header is NAME: VALUE, and this is ${line}`);
    headers[line.slice(0, place).trim()] = line.slice(place + 1).trim();
  }
  return headers;
}

/** When something is due: a delay, or a time. @param {string} text @returns {{after_ms?: number, due_ms?: number}} */
export function whenOf(text) {
  const said = text.trim();
  if (!said) return {};
  const delay = /^\+?(\d+(?:\.\d+)?)\s*(s|m|min|h|d)$/.exec(said);
  if (delay) return { after_ms: Math.round(Number(delay[1]) * { s: 1e3, m: 6e4, min: 6e4, h: 36e5, d: 864e5 }[/** @type {'s'} */ (delay[2])]) };
  const ms = moment(said);
  if (ms === null) throw new Error(`${said} is neither a delay nor a time`);
  return { due_ms: ms };
}
