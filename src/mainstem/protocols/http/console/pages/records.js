/** Records of a topic: from a time, offset or key on, filtered by the broker, followed, opened, sent again, exported. */

import { change, here, to } from '../core/address.js';
import { at, get } from '../core/api.js';
import { headerPairs, editable, plain, preview, view as contentView } from '../core/content.js';
import { h } from '../core/dom.js';
import { button, copy, facts, save } from '../core/facts.js';
import { ask, attempt, notice, numberOf } from '../core/form.js';
import { bytes, count, moment, time } from '../core/format.js';
import { pager, table } from '../core/table.js';
import { publish } from './publishing.js';

const PAGE = 50, FOLLOW_MS = 500, FOLLOW_LIMIT = 200, FOLLOWED_MAX = 500, BEHIND_MAX = 3, EXPORT_PAGES = 100;

/** @param {import('../app.js').Context} context @param {string} name @param {string|undefined} ns */
export function records(context, name, ns) {
  /** @type {any} */ let found = null;
  let asked = '', skipped = 0, passed = 0, isBehind = 0, took = 0;
  /** @type {any} */ let timer = null;
  let isFollowing = false, position = '';

  /** What the address asks for. @returns {Record<string, any>} */
  function wanted() {
    const { from, partition, offset, key, where, after, order } = here().query;
    const time_ms = from ? moment(from) : null;
    if (from && time_ms === null) throw new Error(`${from} is not a time; write 14:03, yesterday 14:03:20, 2026-11-18 14:03 or 15m`);
    const isOldest = order === 'oldest' || time_ms !== null || Boolean(offset);
    return { partition, ...(after ? { after } : { offset, time_ms }), key, where, namespace: ns, ...(isOldest ? { limit: PAGE } : { newest: PAGE }) };
  }

  /** @param {AbortSignal} [signal] @param {boolean} [isAgain] although nothing else is asked for */
  async function refresh(signal, isAgain) {
    if (isFollowing) return;
    const query = wanted();
    // A time like 15m is another one each moment: only what somebody has changed asks again.
    const { open, follow, ...said } = here().query;
    const now = JSON.stringify(said);
    if (now === asked && found && !isAgain) return;
    const begun = performance.now();
    const page = await get(`${at('topics', name)}/records`, query, { signal, exact: true });
    took = performance.now() - begun;
    found = page; asked = now; skipped = 0; passed = 0;
    if (page.records.length === 0 && !page.complete) notice('Nothing fits among the records that were looked at. Go on with Next.');
    if (follow === '1') begin();
  }

  function begin() {
    isFollowing = true;
    position = found?.follow ?? '';
    step();
  }

  async function step() {
    clearTimeout(timer);
    if (!isFollowing) return;
    if (!document.hidden) {
      try {
        const { partition, key, where } = here().query;
        const query = position ? { after: position, limit: FOLLOW_LIMIT } : { newest: PAGE, partition };
        const page = await get(`${at('topics', name)}/records`, { ...query, key, where, namespace: ns }, { exact: true });
        if (!isFollowing) return;
        if (position) {
          found = { ...page, records: [...page.records.toReversed(), ...found.records].slice(0, FOLLOWED_MAX) };
          passed += page.scanned;
          position = page.position;
        } else {
          found = page;
          position = page.follow ?? '';
        }
        isBehind = page.complete ? 0 : isBehind + 1;
        if (isBehind > BEHIND_MAX) await jump(partition, key, where);
        context.redraw();
      } catch { /* the page says that the broker is away */ }
    }
    timer = setTimeout(step, isBehind ? 0 : FOLLOW_MS);
  }

  /** Too much comes to be shown: go on at the end, and say how much was left out. @param {any} partition @param {any} key @param {any} where */
  async function jump(partition, key, where) {
    const page = await get(`${at('topics', name)}/records`, { newest: PAGE, partition, key, where, namespace: ns }, { exact: true });
    const before = places(position), after = places(page.follow ?? '');
    for (const [one, offset] of after) skipped += Math.max(0, offset - (before.get(one) ?? offset) - page.records.length);
    found = page; position = page.follow ?? position; isBehind = 0;
  }

  function stop() {
    isFollowing = false;
    clearTimeout(timer);
  }

  function moved() {
    const isWanted = here().query.follow === '1';
    if (isFollowing && (!isWanted || JSON.stringify(rest(here().query)) !== asked)) { stop(); found = isWanted ? null : found; asked = ''; }
    else if (isWanted && !isFollowing && found) begin();
  }

  /** @param {any} topic @param {any} summary */
  function view(topic, summary) {
    const { query } = here();
    const rows = found?.records ?? null;
    const many = (topic?.partition_count ?? 1) > 1;
    return [
      tools(query, many, topic),
      table({
        label: `Records of ${name}`, rows, key: placeOf, opened: query.open ?? null, onopen: (key) => change({ open: key }, true), sorted: 'none',
        empty: query.key || query.where ? 'No record fits.' : query.from || query.offset ? 'There is no record from there on.' : 'The topic has no records.',
        detail: (one) => detail(one),
        columns: [
          { title: 'Offset', number: true, cell: (one) => one.offset },
          ...(many ? [{ title: 'Partition', number: true, rank: /** @type {2} */ (2), cell: (/** @type {any} */ one) => one.partition }] : []),
          { title: 'Time (UTC)', kind: 'time', rank: 2, cell: (one) => time(one.time_ms) },
          { title: 'Key', kind: 'key', cell: (one) => plain(one.key) },
          { title: 'Value', kind: 'value', cell: (one) => one.value === null ? h('span', { class: 'muted' }, 'null') : preview(one) },
          { title: 'Size', number: true, rank: 2, cell: (one) => bytes(one.size) },
        ],
      }),
      h('div', { class: 'foot-line' },
        h('span', { role: 'status' }, isFollowing
          ? `Following: ${count(passed)} records came${skipped ? `, ${count(skipped)} of them too fast to be shown` : ''}.`
          : found ? `Scanned ${count(found.scanned)}${summary ? ` of ${count(summary.records)}` : ''} in ${(took / 1000).toFixed(2)} s, ${count(found.records.length)} shown${found.unreadable ? `, ${count(found.unreadable)} unreadable` : ''}.` : ''),
        isFollowing ? null : pager({ next: found?.complete && !found?.records.length ? null : found?.next, shown: rows?.length ?? 0, what: 'records' })),
    ];
  }

  /** @param {Record<string, string>} query @param {boolean} many @param {any} topic */
  function tools(query, many, topic) {
    /** @param {any} event */
    const submit = (event) => {
      event.preventDefault();
      const { from, key, where, partition } = event.target.elements;
      const said = from.value.trim(), isOffset = /^\d{1,11}$/.test(said);
      if (isOffset && many && partition.value === '') { notice('An offset needs a partition, as the topic has several.'); return; }
      change({ from: isOffset ? '' : said, offset: isOffset ? said : '', key: key.value, where: where.value.trim(), partition: partition?.value ?? '', after: '', back: '', open: '' });
      asked = '';
      context.again();
    };
    const field = (/** @type {string} */ id, /** @type {string} */ label, /** @type {string} */ value, /** @type {string} */ hint, broad = false) =>
      h('div', { class: 'field' }, h('label', { for: id }, label), h('input', { id, name: id, class: broad ? 'broad' : '', value, placeholder: hint, autocomplete: 'off', spellcheck: 'false' }));
    return h('form', { class: 'bar-of-tools', onsubmit: submit, role: 'search', 'aria-label': 'Records' },
      field('from', 'From', query.offset ?? query.from ?? '', 'newest, 14:03:20, 15m, an offset'),
      many ? h('div', { class: 'field' }, h('label', { for: 'partition' }, 'Partition'), h('select', { id: 'partition', name: 'partition', value: query.partition ?? '' },
        h('option', { value: '' }, 'all'), Array.from({ length: Math.min(topic.partition_count, 500) }, (_, index) => h('option', { value: String(index), selected: query.partition === String(index) }, index)))) : null,
      field('key', 'Key', query.key ?? '', 'exactly'),
      field('where', 'Where', query.where ?? '', "amount > 100 AND country = 'DE'", true),
      h('button', { type: 'submit' }, 'Show'),
      button(isFollowing ? 'Stop' : 'Follow', () => change({ follow: isFollowing ? '' : '1', from: '', offset: '', after: '', back: '', order: '' }), isFollowing ? 'on' : '', { 'aria-pressed': String(isFollowing) }),
      h('span', { class: 'push actions' }, button('Refresh', () => attempt(async () => { await refresh(undefined, true); context.redraw(); })), button('Export', exportAll)));
  }

  /** An open record. @param {any} one */
  function detail(one) {
    const headers = headerPairs(one.headers);
    return h('div', { class: 'open-record' },
      h('div', null, contentView(one, `${name} ${placeOf(one)}`, context.redraw),
        h('div', { class: 'actions' },
          button('Send again', () => publish(name, { ns, record: one, done: context.again })),
          button('Schedule a copy', () => publish(name, { ns, record: one, later: true })),
          button('Copy', () => attempt(() => copy(editable(one)), 'Copied.')),
          button('Copy record', () => attempt(() => copy(JSON.stringify(one)), 'Copied.')),
          h('a', { href: to(['trace'], { id: `${name}:${one.partition}:${one.offset}` }) }, 'Trace'))),
      h('div', { class: 'side-facts' }, facts([
        ['Partition', one.partition], ['Offset', one.offset], ['Time', time(one.time_ms)], ['Key', one.key === null ? h('span', { class: 'muted' }, 'none') : plain(one.key)],
        ['Size', bytes(one.size)],
        .../** @type {[any, any][]} */ (headers.map(([header, value]) => [header, header === 'traceparent' ? h('a', { href: to(['trace'], { id: plain(value) }) }, plain(value)) : plain(value)])),
      ])));
  }

  function exportAll() {
    ask({
      title: 'Export what is selected', action: 'Export', text: 'From here on, in the order shown, as many as you say.',
      fields: [
        { name: 'form', label: 'Form', type: 'choice', value: 'jsonl', options: [['jsonl', 'JSON lines, which can be published again'], ['csv', 'CSV']] },
        { name: 'limit', label: 'Records, at most', type: 'number', value: '500', required: true },
      ],
      submit: async (values) => {
        const limit = Math.min(numberOf(values.limit) ?? 500, 50_000);
        /** @type {any[]} */
        const all = [];
        const query = wanted();
        let page = await get(`${at('topics', name)}/records`, query, { exact: true, timeout: 30_000 });
        for (let round = 0; round < EXPORT_PAGES; round++) {
          all.push(...page.records);
          if (all.length >= limit || page.complete || !page.next) break;
          page = await get(page.next.slice(1), undefined, { exact: true, timeout: 30_000 });
        }
        const rows = all.slice(0, limit);
        const text = values.form === 'csv' ? csv(rows) : rows.map((one) => JSON.stringify(one)).join('\n') + '\n';
        save(`${name}.${values.form}`, text, values.form === 'csv' ? 'text/csv' : 'application/x-ndjson');
        return `${count(rows.length)} records are exported.`;
      },
    });
  }

  return { refresh: (/** @type {AbortSignal} */ signal) => refresh(signal), view, moved, close: stop };
}

/** @param {any} query */
function rest(query) {
  const { open, follow, ...said } = query;
  return said;
}

/** @param {any} one */
function placeOf(one) {
  return `${one.partition}:${one.offset}`;
}

/** Positions by partition. @param {string} text @returns {Map<number, number>} */
function places(text) {
  return new Map(text.split(',').filter(Boolean).map((one) => /** @type {[number, number]} */ (one.split(':').map(Number))));
}

/** @param {any[]} rows */
function csv(rows) {
  const cell = (/** @type {any} */ value) => {
    const text = String(value ?? '');
    // A spreadsheet would run what begins like a formula.
    const safe = /^[=+\-@\t\r]/.test(text) && !/^-?\d+(\.\d+)?$/.test(text) ? `'${text}` : text;
    return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  };
  const lines = rows.map((one) => [one.partition, one.offset, time(one.time_ms), plain(one.key), editable(one), JSON.stringify(one.headers ?? {})].map(cell).join(','));
  return ['partition,offset,time,key,value,headers', ...lines].join('\n') + '\n';
}
