/** The broker's HTTP API, with a time limit for every request, and whether the broker is there. */

import { search } from './address.js';

const TIMEOUT_MS = 10_000;
const TOKEN = 'mainstem.token';

/** What the broker refused, and why (RFC 9457). */
export class Problem extends Error {
  /** @param {number} status @param {any} said */
  constructor(status, said) {
    super(said?.detail || said?.title || `the broker answered ${status}`);
    this.status = status;
    this.kind = String(said?.type ?? '').replace('urn:mainstem:problem:', '');
    this.pointer = said?.pointer ?? (said?.parameter ? `/${said.parameter}` : '');
  }
}

/** The broker did not answer. */
export class Away extends Error {}

/** Whether the broker answers, since when it does not, and who is told of a change. */
export const line = {
  up: true,
  since: Date.now(),
  /** @type {(() => void)[]} */
  told: [],
  /** Called when the broker asks for a login. */
  signedOut: () => {},
};

/** @param {boolean} up */
function found(up) {
  if (up) line.since = Date.now();
  if (line.up === up) return;
  line.up = up;
  for (const tell of line.told) tell();
}

export const token = {
  get: () => sessionStorage.getItem(TOKEN) ?? '',
  /** @param {string} value */
  set: (value) => (value ? sessionStorage.setItem(TOKEN, value) : sessionStorage.removeItem(TOKEN)),
};

/**
 * A number whose digits JavaScript cannot hold.
 */
export class Exact {
  /** @param {string} source */
  constructor(source) { this.source = source; }
  toJSON() { return /** @type {any} */ (JSON).rawJSON?.(this.source) ?? Number(this.source); }
}

/** JSON in which every number keeps its digits, where the browser can. @param {string} text */
export function parseExact(text) {
  return JSON.parse(text, /** @type {any} */ ((/** @type {string} */ _, /** @type {any} */ value, /** @type {any} */ context) =>
    typeof value === 'number' && context?.source !== undefined && String(value) !== context.source
      && !(Number.isSafeInteger(value) || /[.eE]/.test(context.source) && context.source.length < 17)
      ? new Exact(context.source) : value));
}

/**
 * @param {string} method @param {string} path relative, as `v1/topics` @param {any} [content] sent as JSON
 * @param {{signal?: AbortSignal, exact?: boolean, timeout?: number, headers?: Record<string, string>}} [how]
 * @returns {Promise<any>}
 */
export async function request(method, path, content, how = {}) {
  const limit = AbortSignal.timeout(how.timeout ?? TIMEOUT_MS);
  const signal = how.signal ? AbortSignal.any([how.signal, limit]) : limit;
  /** @type {Record<string, string>} */
  const headers = { accept: 'application/json', ...how.headers };
  if (method !== 'GET' && token.get()) headers['x-mainstem-token'] = token.get();
  if (content !== undefined) headers['content-type'] = 'application/json';
  let response, text;
  try {
    const body = content === undefined ? undefined : JSON.stringify(content);
    response = await fetch(path.replace(/^\//, ''), { method, headers, body, signal, cache: 'no-store', credentials: 'same-origin' });
    text = await response.text();
  } catch (error) {
    if (how.signal?.aborted) throw error;
    found(false);
    throw new Away('The broker does not answer.');
  }
  // A proxy in front answers for a broker that is gone.
  if ([502, 504].includes(response.status) && !text.startsWith('{')) {
    found(false);
    throw new Away('The broker does not answer.');
  }
  found(true);
  /** @type {any} */
  let said = null;
  try { said = text ? (how.exact ? parseExact(text) : JSON.parse(text)) : null; } catch { /* not ours */ }
  if (response.status === 401 && !path.startsWith('v1/session')) line.signedOut();
  if (!response.ok) throw new Problem(response.status, said);
  return said;
}

/** @param {string} path @param {Record<string, any>} [query] @param {{signal?: AbortSignal, exact?: boolean, timeout?: number}} [how] */
export function get(path, query, how) {
  return request('GET', path + search(query), undefined, how);
}

/** A path with its steps encoded. @param {...(string|number)} steps */
export function at(...steps) {
  return ['v1', ...steps.map((step) => encodeURIComponent(step))].join('/');
}

/** What is shown of an error. @param {any} error */
export function sentence(error) {
  const text = String(error?.message ?? error);
  return text.charAt(0).toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? '' : '.');
}
