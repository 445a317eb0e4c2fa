/**
 * What a page looks like is a tree of plain values; `draw` changes the document to look like it.
 * Text reaches the document as text nodes only, so no name or value can become markup.
 */

/**
 * @typedef {object} Node_
 * @property {string} [tag]
 * @property {string} [text]
 * @property {Record<string, any>} [props]
 * @property {Node_[]} [children]
 * @property {string|number} [key]
 * @property {any} [el]
 */
/** @typedef {Node_|string|number|boolean|null|undefined|Array<any>} Child */

const SVG = 'http://www.w3.org/2000/svg';
const PROPERTIES = new Set(['value', 'checked', 'disabled', 'hidden', 'selected', 'open', 'readOnly', 'indeterminate']);
// Characters that are not seen, or that change the direction of what follows.
const UNSEEN = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g;

/** Text in which nothing is hidden. @param {string} text */
export function visible(text) {
  return text.replace(UNSEEN, (one) => {
    const code = one.charCodeAt(0);
    return code < 0x20 ? String.fromCharCode(0x2400 + code) : `\\u${code.toString(16).padStart(4, '0')}`;
  });
}

/**
 * An element. @param {string} tag @param {Record<string, any>|null} [props] @param {...Child} children
 * @returns {Node_}
 */
export function h(tag, props, ...children) {
  /** @type {Node_[]} */
  const flat = [];
  flatten(children, flat);
  return { tag, props: props ?? {}, children: flat, key: props?.key };
}

/** @param {any[]} list @param {Node_[]} into */
function flatten(list, into) {
  for (const child of list) {
    if (Array.isArray(child)) flatten(child, into);
    // What is absent keeps its place: the elements behind it stay what they were.
    else if (child === null || child === undefined || typeof child === 'boolean') into.push({ text: '' });
    else if (typeof child === 'object') into.push(child);
    else into.push({ text: visible(String(child)) });
  }
}

/** Make the content of an element look like this. @param {any} root @param {Child} content */
export function draw(root, content) {
  /** @type {Node_[]} */
  const now = [];
  flatten([content], now);
  children(root, root.__drawn ?? [], now, false);
  root.__drawn = now;
}

/** @param {Node_} node @param {boolean} svg */
function create(node, svg) {
  if (node.tag === undefined) {
    node.el = document.createTextNode(node.text ?? '');
    return;
  }
  const inSvg = svg || node.tag === 'svg';
  node.el = inSvg ? document.createElementNS(SVG, node.tag) : document.createElement(node.tag);
  children(node.el, [], node.children ?? [], inSvg);
  const props = node.props ?? {};
  for (const name in props) assign(node.el, name, undefined, props[name]);
  props.ref?.(node.el);
}

/** @param {Node_} was @param {Node_} now @param {boolean} svg */
function patch(was, now, svg) {
  const el = (now.el = was.el);
  if (now.tag === undefined) {
    if (was.text !== now.text) el.data = now.text;
    return;
  }
  children(el, was.children ?? [], now.children ?? [], svg || now.tag === 'svg');
  const before = was.props ?? {}, after = now.props ?? {};
  for (const name in before) if (!(name in after)) assign(el, name, before[name], undefined);
  for (const name in after) if (before[name] !== after[name]) assign(el, name, before[name], after[name]);
}

/** @param {any} el @param {Node_[]} was @param {Node_[]} now @param {boolean} svg */
function children(el, was, now, svg) {
  const keyed = new Map(), rest = [];
  for (const node of was) node.key === undefined ? rest.push(node) : keyed.set(node.key, node);
  const kept = new Set();
  let next = 0;
  for (const node of now) {
    const old = node.key === undefined ? rest[next++] : keyed.get(node.key);
    if (old !== undefined && old.tag === node.tag && !kept.has(old)) {
      kept.add(old);
      patch(old, node, svg);
    } else {
      create(node, svg);
    }
  }
  for (const node of was) if (!kept.has(node)) node.el.remove();
  let at = el.firstChild;
  for (const node of now) {
    if (node.el === at) at = at.nextSibling;
    else el.insertBefore(node.el, at);
  }
}

/** @param {any} el @param {string} name @param {any} was @param {any} value */
function assign(el, name, was, value) {
  if (name === 'key' || name === 'ref') return;
  if (name.startsWith('on')) el[name] = value ?? null;
  else if (name === 'style') {
    for (const one in was ?? {}) if (!(one in (value ?? {}))) el.style.removeProperty(one);
    for (const one in value ?? {}) el.style.setProperty(one, String(value[one]));
  } else if (PROPERTIES.has(name)) {
    // Nobody's typing is overwritten.
    if (name === 'value' && el === document.activeElement && was !== undefined) return;
    if (el[name] !== (value ?? '')) el[name] = value ?? (name === 'value' ? '' : false);
  } else if (value === undefined || value === null || value === false) el.removeAttribute(name === 'class' ? 'class' : name);
  else el.setAttribute(name, value === true ? '' : visible(String(value)));
}
