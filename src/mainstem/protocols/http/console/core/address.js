/** All state of a page is in the address behind `#`, so that it can be sent to others and comes back with the back button. */

/** @typedef {{path: string[], query: Record<string, string>}} Address */

/** @returns {Address} */
export function here() {
  const [path, search] = location.hash.replace(/^#\/?/, '').split('?', 2);
  return {
    path: path ? path.split('/').map(decode) : ['overview'],
    query: Object.fromEntries(new URLSearchParams(search ?? '')),
  };
}

/** @param {string} step */
function decode(step) {
  try { return decodeURIComponent(step); } catch { return step; }
}

/** An address within the console. @param {string[]} path @param {Record<string, any>} [query] */
export function to(path, query) {
  return `#/${path.map(encodeURIComponent).join('/')}${search(query)}`;
}

/** What is said stands behind a question mark. @param {Record<string, any>} [query] */
export function search(query) {
  const said = Object.entries(query ?? {}).filter(([, value]) => value !== undefined && value !== null && value !== '');
  return said.length ? `?${new URLSearchParams(said.map(([name, value]) => [name, String(value)]))}` : '';
}

/** Go there. @param {string} hash @param {boolean} [replace] without a step of its own in the history */
export function go(hash, replace) {
  if (replace) {
    history.replaceState(null, '', hash);
    dispatchEvent(new HashChangeEvent('hashchange'));
  } else {
    location.hash = hash;
  }
}

/** The same page, asked otherwise. @param {Record<string, any>} changes @param {boolean} [replace] */
export function change(changes, replace) {
  const { path, query } = here();
  go(to(path, { ...query, ...changes }), replace);
}
