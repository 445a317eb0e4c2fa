/** Numbers, sizes and times for people. Times are UTC, as the broker's log has them. */

const GROUPED = new Intl.NumberFormat('en-US', { maximumFractionDigits: 0 });
const UNITS = ['B', 'KB', 'MB', 'GB', 'TB', 'PB'];

/** @param {number|null|undefined} value */
export function count(value) {
  return value === null || value === undefined ? '-' : GROUPED.format(value);
}

/** Three digits, with a letter. @param {number|null|undefined} value */
export function short(value) {
  if (value === null || value === undefined) return '-';
  const size = Math.abs(value);
  if (size >= 1e9) return `${digits(value / 1e9)} G`;
  if (size >= 1e6) return `${digits(value / 1e6)} M`;
  if (size >= 1e4) return `${digits(value / 1e3)} k`;
  return size >= 100 || Number.isInteger(value) ? GROUPED.format(value) : digits(value);
}

/** @param {number} value */
function digits(value) {
  return Math.abs(value) >= 100 ? value.toFixed(0) : Math.abs(value) >= 10 ? value.toFixed(1) : value.toFixed(value && Math.abs(value) < 1 ? 2 : 1);
}

/** Value and unit. @param {number|null|undefined} value @returns {[string, string]} */
export function bytesParts(value) {
  if (value === null || value === undefined) return ['-', ''];
  let unit = 0;
  while (Math.abs(value) >= 1000 && unit < UNITS.length - 1) { value /= 1000; unit++; }
  return [unit ? digits(value) : value.toFixed(0), UNITS[unit]];
}

/** @param {number|null|undefined} value */
export function bytes(value) {
  return bytesParts(value).join(' ').trim();
}

/** The time between two moments. @param {number|null|undefined} seconds @returns {string} */
export function duration(seconds) {
  if (seconds === null || seconds === undefined) return '-';
  if (seconds < 0) return `-${duration(-seconds)}`;
  if (seconds === 0) return '0 s';
  if (seconds < 1) return `${Math.max(1, Math.round(seconds * 1000))} ms`;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 90) return `${Math.round(seconds)} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172800) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86400)} d`;
}

/** @param {number} ms */
export function ago(ms) {
  return duration(Math.max(0, (Date.now() - ms) / 1000));
}

/** Date and time with milliseconds. @param {number|null|undefined} ms */
export function time(ms) {
  return valid(ms) ? new Date(/** @type {number} */ (ms)).toISOString().replace('T', ' ').replace('Z', '') : '-';
}

/** Only the time of the day. @param {number|null|undefined} ms */
export function clock(ms) {
  return valid(ms) ? time(ms).slice(11, 19) : '-';
}

/** @param {number|null|undefined} ms */
function valid(ms) {
  return ms !== null && ms !== undefined && ms >= 0 && ms < 8.64e15;
}

/**
 * A moment as people write it: `yesterday 14:03`, `14:03:20.5`, `2026-11-18 14:03`, `-15m`, `1h`, milliseconds.
 * @param {string} text @param {number} [now] @returns {number|null} Null: it says nothing that is known here.
 */
export function moment(text, now = Date.now()) {
  const said = text.trim().toLowerCase();
  if (!said) return null;
  if (said === 'now') return now;
  if (/^\d{12,}$/.test(said)) return Number(said);
  const back = /^-?\s*(\d+(?:\.\d+)?)\s*(ms|s|m|min|h|d)(?:\s+ago)?$/.exec(said);
  if (back) {
    const unit = { ms: 1, s: 1e3, m: 6e4, min: 6e4, h: 36e5, d: 864e5 }[/** @type {'s'} */ (back[2])];
    return Math.round(now - Number(back[1]) * unit);
  }
  const named = /^(today|yesterday)?\s*(\d{1,2}:\d{2}(?::\d{2}(?:\.\d{1,3})?)?)?$/.exec(said);
  if (named) {
    const day = new Date(now - (named[1] === 'yesterday' ? 864e5 : 0)).toISOString().slice(0, 10);
    return finite(Date.parse(`${day}T${(named[2] ?? '00:00').padStart(5, '0')}Z`));
  }
  if (!/^\d{4}-/.test(said)) return null;
  const plain = said.replace(' ', 't').replace(/z$/, '').toUpperCase();
  return finite(Date.parse(plain.length <= 10 ? plain : `${plain}Z`));
}

/** @param {number} ms */
function finite(ms) {
  return Number.isFinite(ms) ? ms : null;
}
