/** The shell: who is logged in, where one is, which page is shown, and the beat by which pages look again. */

import { here, to } from './core/address.js';
import { Away, Problem, get, line, request, sentence, token } from './core/api.js';
import { draw, h } from './core/dom.js';
import { clock, count, short } from './core/format.js';
import { attempt } from './core/form.js';
import { openPalette } from './core/palette.js';

/**
 * @typedef {object} Page what a module of `pages/` makes
 * @property {() => string} title
 * @property {(signal: AbortSignal) => Promise<void>} refresh look at the broker again
 * @property {() => import('./core/dom.js').Child} view
 * @property {number} [every] ms between two looks; 0: none
 * @property {() => void} [moved] the query of the address has changed
 * @property {() => void} [close]
 */
/** @typedef {{path: string[], query: Record<string, string>, redraw: () => void, again: () => void, shared: typeof shared}} Context */

const BEAT_MS = 1000, NAVIGATION_MS = 10_000;
/** Name in the address, title, module, the place in the navigation that it belongs to. */
const PAGES = /** @type {[string, string, string, string?][]} */ ([
  ['overview', 'Overview', 'overview'],
  ['topics', 'Topics', 'topics'],
  ['topic', '', 'topic', 'topics'],
  ['consumers', 'Consumers', 'consumers'],
  ['group', '', 'group', 'consumers'],
  ['queues', 'Queues', 'queues'],
  ['queue', '', 'queue', 'queues'],
  ['exchanges', 'Exchanges', 'exchanges'],
  ['exchange', '', 'exchange', 'exchanges'],
  ['dead', 'Dead letters', 'dead'],
  ['schedule', 'Schedule', 'schedule'],
  ['pipelines', 'Pipelines', 'pipelines'],
  ['pipeline', '', 'pipeline', 'pipelines'],
  ['connections', 'Connections', 'connections'],
  ['alarms', 'Alarms', 'alarms'],
  ['trace', 'Trace', 'trace'],
  ['settings', 'Settings', 'settings'],
]);
const ICONS = /** @type {Record<string, string>} */ ({
  overview: 'M4 13h6V4H4zM14 20h6v-9h-6zM14 4v3h6V4zM4 17v3h6v-3z',
  topics: 'M4 6h16M4 12h16M4 18h10', consumers: 'M8 11a3 3 0 1 0 0-6 3 3 0 0 0 0 6zM3 20c0-3 2-5 5-5s5 2 5 5M16 8l4 4-4 4',
  queues: 'M4 7h12v4H4zM8 13h12v4H8z', exchanges: 'M4 8h14l-4-4M20 16H6l4 4', dead: 'M12 8v5M12 16.500v.1M4 19h16L12 4z',
  schedule: 'M12 7v5l3 3M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18z', pipelines: 'M4 6h5v5H4zM15 13h5v5h-5zM9 8.500h4a4 4 0 0 1 4 4',
  connections: 'M9 12h6M7 8H6a4 4 0 0 0 0 8h1M17 8h1a4 4 0 0 1 0 8h-1', alarms: 'M6 16V11a6 6 0 0 1 12 0v5l2 2H4zM10 21h4',
  trace: 'M5 5v8a3 3 0 0 0 3 3h8M13 12l4 4-4 4', settings: 'M4 7h9M17 7h3M4 17h3M11 17h9M15 9V5M9 19v-4',
});

const root = /** @type {HTMLElement} */ (document.getElementById('app'));
/** What all pages know. */
const shared = {
  /** @type {any} */ node: null,
  /** @type {any[]} */ alarms: [],
  /** @type {string} */ user: '',
  needed: false,
};
/** @type {any} */
let page = null;
let where = here(), shownFor = '', isOpen = false, isLogin = false, loginError = '';
let lastLook = 0, lastNavigation = 0, isLooking = false;
/** @type {AbortController} */
let looking = new AbortController();
/** @type {any} */
let error = null;

// Light and dark

const dark = matchMedia('(prefers-color-scheme: dark)');
function paint() {
  const wanted = localStorage.getItem('mainstem.theme') ?? (dark.matches ? 'dark' : 'light');
  document.documentElement.dataset.theme = wanted;
}
dark.addEventListener('change', paint);
paint();

function turnLight() {
  localStorage.setItem('mainstem.theme', document.documentElement.dataset.theme === 'dark' ? 'light' : 'dark');
  paint();
  redraw();
}

// Drawing

let isDrawing = false;
function redraw() {
  if (isDrawing) return;
  isDrawing = true;
  requestAnimationFrame(() => { isDrawing = false; show(); });
}

function show() {
  document.documentElement.classList.toggle('stale', !line.up);
  if (isLogin) {
    draw(root, login());
    return;
  }
  const entry = PAGES.find(([name]) => name === where.path[0]);
  const active = entry?.[3] ?? entry?.[0];
  document.title = `${page?.title() || 'Mainstem'} · Mainstem`;
  draw(root, h('div', { class: 'shell' },
    h('a', { class: 'skip', href: '#main', onclick: (/** @type {Event} */ event) => { event.preventDefault(); document.getElementById('main')?.focus(); } }, 'To the content'),
    navigation(active),
    h('main', { id: 'main', tabindex: '-1' },
      line.up ? null : h('div', { class: 'banner', role: 'alert' }, h('b', null, 'The broker does not answer. '),
        `Values are as of ${clock(line.since)} UTC. Trying again every second.`),
      page ? h('div', { key: shownFor }, guarded()) : error ? problem() : h('p', { class: 'empty' }, 'Loading …'))));
}

function guarded() {
  if (error && !(error instanceof Away)) return problem();
  return page.view();
}

function problem() {
  return h('div', { class: 'problem', role: 'alert' }, h('h1', null, error instanceof Problem && error.status === 404 ? 'Not here' : 'This did not work'),
    h('p', null, sentence(error)), h('p', null, h('a', { href: to(['overview']) }, 'To the overview')));
}

/** @param {string|undefined} active */
function navigation(active) {
  const critical = shared.alarms.length;
  /** @type {Record<string, any>} */
  const marks = { topics: shared.node && short(shared.node.topics), alarms: critical ? h('b', null, count(critical)) : null };
  return h('aside', { class: `side${isOpen ? ' open' : ''}` },
    h('div', { class: 'brand' },
      h('a', { href: to(['overview']) }, logo(), 'Mainstem'),
      h('button', { type: 'button', class: 'menu', 'aria-expanded': String(isOpen), 'aria-controls': 'navigation', onclick: () => { isOpen = !isOpen; redraw(); } },
        h('span', { class: 'unseen' }, 'Menu'), h('span', { 'aria-hidden': 'true' }, isOpen ? '✕' : '☰'))),
    h('nav', { id: 'navigation', 'aria-label': 'Main' },
      h('button', { type: 'button', class: 'go', onclick: palette }, h('span', null, 'Go to anything'), h('kbd', null, '/')),
      h('ul', null, PAGES.filter(([, title]) => title).map(([name, title]) => h('li', null, h('a', {
        href: to([name]), 'aria-current': name === active ? 'page' : undefined, onclick: () => { isOpen = false; },
      }, icon(ICONS[name]), h('span', null, title), marks[name] ? h('span', { class: 'mark' }, marks[name]) : null)))),
      h('div', { class: 'foot' },
        h('span', { class: `state ${line.up ? '' : 'down'}`, role: 'status' }, h('i', { class: 'dot' }), line.up ? 'live' : `as of ${clock(line.since)}`),
        shared.user && shared.needed ? h('button', { type: 'button', class: 'quiet', onclick: logOut, title: 'Log out' }, shared.user) : null,
        h('button', { type: 'button', class: 'quiet', onclick: turnLight, 'aria-label': 'Light or dark' }, '◐'))));
}

function logo() {
  return h('svg', { class: 'logo', viewBox: '0 0 24 24', width: 26, height: 26, 'aria-hidden': 'true' },
    h('path', { d: 'M12 22V3M12 17c-4.500 0-7-2.500-7-7M12 13c4.500 0 7-2.500 7-7' }));
}

/** @param {string} path */
function icon(path) {
  return h('svg', { class: 'icon', viewBox: '0 0 24 24', width: 18, height: 18, 'aria-hidden': 'true' }, h('path', { d: path }));
}

function palette() {
  isOpen = false;
  openPalette(PAGES.filter(([, title]) => title).map(([name, title]) => ({ title, kind: 'page', href: to([name]) })));
}

// Going

async function turn() {
  where = here();
  const name = where.path.join('/');
  if (name === shownFor && page) {
    context.path = where.path; context.query = where.query;
    page.moved?.();
    look(true);
    redraw();
    return;
  }
  page?.close?.();
  page = null; error = null; shownFor = name;
  const entry = PAGES.find(([known]) => known === where.path[0]);
  if (!entry) { error = new Problem(404, { detail: 'There is no such page' }); redraw(); return; }
  let module;
  try { module = await import(`./pages/${entry[2]}.js`); } catch {
    error = new Away('The page could not be loaded. Reload when the broker is back.');
    lastNavigation = 0;
    redraw();
    return;
  }
  if (shownFor !== name) return;
  context.path = where.path; context.query = where.query;
  page = module.page(context);
  scrollTo(0, 0);
  look(true);
  redraw();
}

/** @type {Context} */
const context = { path: where.path, query: where.query, redraw, again: () => look(true), shared };

// Looking again

/** @param {boolean} [atOnce] whatever is under way */
async function look(atOnce) {
  if (!page || isLogin || (isLooking && !atOnce)) return;
  if (atOnce) looking.abort();
  looking = new AbortController();
  const mine = page, { signal } = looking;
  isLooking = true;
  lastLook = Date.now();
  try {
    await mine.refresh(signal);
    if (mine === page && !signal.aborted) error = null;
  } catch (cause) {
    if (mine === page && !signal.aborted) error = cause;
    if (!(cause instanceof Problem || cause instanceof Away) && !signal.aborted) console.error(cause);
  }
  if (!signal.aborted) isLooking = false;
  redraw();
}

async function lookAround() {
  lastNavigation = Date.now();
  try {
    const [node, alarms] = await Promise.all([get('v1/node'), get('v1/alarms')]);
    shared.node = node; shared.alarms = alarms.alarms;
    redraw();
  } catch { /* the page says it */ }
}

function beat() {
  if (document.hidden || isLogin) return;
  const every = line.up ? page?.every ?? 5000 : BEAT_MS;
  if (every && Date.now() - lastLook >= every - 50) look();
  if (Date.now() - lastNavigation >= (page ? NAVIGATION_MS : BEAT_MS)) lookAround();
}

// Logging in

async function whoAmI() {
  try {
    const { links } = await get('./');
    if (!links.session) return;
    const said = await get('v1/session');
    shared.user = said.user ?? ''; shared.needed = Boolean(said.needed);
    if (said.token) token.set(said.token);
    isLogin = false;
  } catch (cause) {
    if (cause instanceof Problem && cause.status === 401) isLogin = true;
  }
}

function login() {
  /** @param {any} event */
  const submit = async (event) => {
    event.preventDefault();
    const { user, password } = event.target.elements;
    loginError = '';
    try {
      const said = await request('POST', 'v1/session', { user: user.value, password: password.value });
      token.set(said.token ?? '');
      shared.user = said.user; shared.needed = true;
      isLogin = false;
      lookAround();
      turn();
    } catch (cause) {
      loginError = cause instanceof Problem && cause.status === 401 ? 'User or password is wrong.' : sentence(cause);
    }
    redraw();
  };
  return h('main', { class: 'login', id: 'main' }, h('form', { onsubmit: submit, class: 'panel' },
    h('div', { class: 'brand' }, logo(), 'Mainstem'),
    h('h1', null, 'Log in'),
    h('div', { class: 'field' }, h('label', { for: 'user' }, 'User'), h('input', { id: 'user', name: 'user', autocomplete: 'username', required: true, ref: (/** @type {any} */ el) => setTimeout(() => el.focus()) })),
    h('div', { class: 'field' }, h('label', { for: 'password' }, 'Password'), h('input', { id: 'password', name: 'password', type: 'password', autocomplete: 'current-password' })),
    loginError ? h('p', { class: 'error', role: 'alert' }, loginError) : null,
    h('button', { type: 'submit', class: 'primary' }, 'Log in')));
}

async function logOut() {
  await attempt(() => request('DELETE', 'v1/session'));
  token.set('');
  isLogin = true;
  redraw();
}

line.signedOut = () => { if (!isLogin) { isLogin = true; redraw(); } };
line.told.push(() => { if (line.up) { lastNavigation = 0; if (!page) turn(); } redraw(); });

addEventListener('hashchange', turn);
document.addEventListener('visibilitychange', beat);
addEventListener('keydown', (event) => {
  const target = /** @type {Element} */ (event.target);
  if (event.key === '/' && !event.ctrlKey && !event.metaKey && !target.closest?.('input, textarea, select, dialog')) {
    event.preventDefault();
    palette();
  } else if (event.key === 'Escape' && isOpen) { isOpen = false; redraw(); }
});
await whoAmI();
turn();
lookAround();
setInterval(beat, BEAT_MS / 4);
