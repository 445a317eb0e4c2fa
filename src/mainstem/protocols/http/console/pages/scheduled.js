/** Records that wait for their time, in a table: cancelled with a way back, moved, published now. */

import { at, request } from '../core/api.js';
import { plain } from '../core/content.js';

import { button } from '../core/facts.js';
import { ask, attempt, notice } from '../core/form.js';
import { duration, time } from '../core/format.js';
import { table } from '../core/table.js';
import { whenOf } from './publishing.js';

const UNDO_S = 10;

/** Where a record goes. @param {any} target */
export function targetName(target) {
  return target.exchange !== null && target.exchange !== undefined ? `${target.exchange || '(default)'} → ${target.routing_key}` : target.topic;
}

/** @param {any[]|null} rows @param {() => void} again @param {string} empty */
export function scheduleTable(rows, again, empty) {
  return table({
    label: 'Schedule', rows: rows && [...rows].sort((a, b) => a.due_ms - b.due_ms), key: (one) => one.id, empty, sorted: 'none',
    columns: [
      { title: 'Due (UTC)', kind: 'time', cell: (one) => time(one.due_ms).slice(0, 19) },
      { title: 'In', number: true, cell: (one) => duration((one.due_ms - Date.now()) / 1000) },
      { title: 'To', kind: 'strong', cell: (one) => targetName(one.target) },
      { title: 'Key', kind: 'key', rank: 3, cell: (one) => plain(one.key) },
      { title: 'Value', kind: 'value', rank: 2, cell: (one) => plain(one.value).slice(0, 240) },
      { title: 'Headers', rank: 3, kind: 'key', cell: (one) => Object.entries(one.headers).map(([name, value]) => `${name}=${plain(value)}`).join(' ') },
      { title: '', kind: 'tools', cell: (one) => [
        button('Move', () => move(one, again), '', { 'aria-label': `Move ${one.id}` }), ' ',
        button('Cancel', () => attempt(() => cancel(one, again)), '', { 'aria-label': `Cancel ${one.id}` })] },
    ],
  });
}

/** @param {any} one @param {() => void} again */
async function cancel(one, again) {
  await request('DELETE', at('schedules', one.id));
  again();
  notice(`The record to ${targetName(one.target)} is cancelled.`, { title: 'Undo', seconds: UNDO_S, run: async () => {
    const { target, key, value, headers, due_ms } = one;
    await request('POST', 'v1/schedules', { target, key, value, headers, due_ms });
    again();
    notice('It is scheduled again.');
  } });
}

/** @param {any} one @param {() => void} again */
function move(one, again) {
  ask({
    title: `Move the record to ${targetName(one.target)}`, action: 'Move',
    fields: [{ name: 'due', label: 'When', value: time(one.due_ms).slice(0, 19), required: true, hint: 'now, a delay as 15m or 2h, or a time (UTC).' }],
    submit: async (values) => {
      const when = whenOf(values.due);
      await request('PATCH', at('schedules', one.id), when.after_ms === undefined ? { due_ms: when.due_ms } : { delay_ms: when.after_ms });
      again();
      return 'It is moved.';
    },
  });
}

