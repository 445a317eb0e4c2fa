/** The one form of the console, in a dialogue: fields, what is wrong with them, a preview, and a name to type where something is destroyed. */

import { Problem, sentence } from './api.js';
import { draw, h } from './dom.js';

/**
 * @typedef {object} Field
 * @property {string} name
 * @property {string} label
 * @property {'text'|'number'|'area'|'choice'|'check'|'password'} [type]
 * @property {any} [value]
 * @property {[string, string][]} [options]
 * @property {string} [hint]
 * @property {boolean} [required]
 * @property {(values: Record<string, any>) => boolean} [when] whether it is shown
 */

/**
 * @typedef {object} Dialogue
 * @property {string} title
 * @property {import('./dom.js').Child} [text]
 * @property {Field[]} [fields]
 * @property {string} action what the button says
 * @property {boolean} [danger]
 * @property {boolean} [wide]
 * @property {string} [confirm] a name that must be typed
 * @property {(values: Record<string, any>) => Promise<any>} submit its answer, if it is a text, is shown as a notice
 * @property {(values: Record<string, any>) => Promise<import('./dom.js').Child>} [preview] shown before it can be submitted
 */

/** Ask, and do it. @param {Dialogue} o */
export function ask(o) {
  const home = document.createElement('dialog');
  home.className = o.wide ? 'wide' : '';
  home.setAttribute('aria-labelledby', 'dialogue-title');
  /** @type {Record<string, any>} */
  const values = Object.fromEntries((o.fields ?? []).map((field) => [field.name, field.value ?? (field.type === 'check' ? false : '')]));
  /** @type {any} */
  const state = { busy: false, error: null, at: '', typed: '', preview: null };
  const opener = /** @type {HTMLElement|null} */ (document.activeElement);

  const show = () => draw(home, h('form', { method: 'dialog', onsubmit: submit, novalidate: true },
    h('h2', { id: 'dialogue-title' }, o.title),
    o.text ? h('div', { class: 'said' }, o.text) : null,
    (o.fields ?? []).map((field) => !field.when || field.when(values) ? fieldOf(field, values, state, changed) : null),
    state.preview ? h('div', { class: 'preview', role: 'status' }, state.preview) : null,
    o.confirm && (!o.preview || state.preview) ? fieldOf({ name: 'confirm', label: `Type ${o.confirm} to confirm`, value: '' }, state, state, () => show(), 'typed') : null,
    state.error ? h('p', { class: 'error', role: 'alert' }, state.error) : null,
    h('div', { class: 'buttons' },
      h('button', { type: 'button', onclick: () => home.close() }, 'Cancel'),
      h('button', {
        type: 'submit', class: o.danger && !(o.preview && !state.preview) ? 'danger' : 'primary',
        disabled: state.busy || (Boolean(o.confirm) && (!o.preview || state.preview) && state.typed !== o.confirm),
      }, o.preview && !state.preview ? 'Preview' : o.action))));

  const changed = () => { state.preview = null; state.error = null; show(); };

  /** @param {Event} event */
  async function submit(event) {
    event.preventDefault();
    if (state.busy) return;
    const missing = (o.fields ?? []).find((field) => field.required && (!field.when || field.when(values)) && values[field.name] === '');
    if (missing) {
      state.error = `${missing.label} is missing.`; state.at = missing.name;
      show();
      return;
    }
    state.busy = true; state.error = null; state.at = '';
    show();
    try {
      if (o.preview && !state.preview) {
        state.preview = await o.preview(values);
      } else {
        const said = await o.submit(values);
        home.close();
        if (typeof said === 'string') notice(said);
      }
    } catch (error) {
      state.error = sentence(error);
      state.at = error instanceof Problem ? error.pointer.split('/').at(-1) : '';
    }
    state.busy = false;
    if (home.open) show();
  }

  home.addEventListener('close', () => { home.remove(); opener?.focus?.(); });
  document.body.append(home);
  show();
  home.showModal();
  const first = home.querySelector('input, textarea, select');
  if (first instanceof HTMLElement) first.focus();
}

/** @param {Field} field @param {any} values @param {any} state @param {() => void} changed @param {string} [key] */
function fieldOf(field, values, state, changed, key = field.name) {
  const id = `field-${field.name}`, wrong = state.at === field.name;
  const common = {
    id, name: field.name, 'aria-invalid': wrong ? 'true' : undefined, 'aria-describedby': field.hint ? `${id}-hint` : undefined,
    autocomplete: field.type === 'password' ? 'current-password' : 'off', spellcheck: 'false',
  };
  const take = (/** @type {any} */ event) => { values[key] = event.target.value; changed(); };
  /** @type {any} */
  let control;
  if (field.type === 'choice') {
    control = h('select', { ...common, value: values[key], onchange: take },
      (field.options ?? []).map(([value, title]) => h('option', { value, selected: value === values[key] }, title)));
  } else if (field.type === 'area') {
    control = h('textarea', { ...common, rows: 8, value: values[key], oninput: take });
  } else if (field.type === 'check') {
    control = h('input', {
      ...common, type: 'checkbox', checked: values[key],
      onchange: (/** @type {any} */ event) => { values[key] = event.target.checked; changed(); },
    });
    return h('label', { class: 'check', for: id, key: field.name }, control, h('span', null, field.label),
      field.hint ? h('small', { id: `${id}-hint` }, field.hint) : null);
  } else {
    control = h('input', { ...common, type: field.type === 'password' ? 'password' : 'text',
      inputmode: field.type === 'number' ? 'decimal' : undefined, value: values[key], oninput: take });
  }
  return h('div', { class: 'field', key: field.name }, h('label', { for: id }, field.label), control,
    field.hint ? h('small', { id: `${id}-hint` }, field.hint) : null);
}

/**
 * A sentence that goes by itself, with something that can still be done. @param {string} text
 * @param {{title: string, run: () => Promise<any>, seconds?: number}} [action]
 */
export function notice(text, action) {
  let home = document.getElementById('notices');
  if (!home) {
    home = document.createElement('div');
    home.id = 'notices';
    home.setAttribute('role', 'status');
    document.body.append(home);
  }
  const one = document.createElement('div');
  one.className = 'notice';
  draw(one, [h('span', null, text), action ? h('button', { type: 'button', onclick: async () => {
    one.remove();
    try { await action.run(); } catch (error) { notice(sentence(error)); }
  } }, action.title) : null]);
  home.append(one);
  setTimeout(() => one.remove(), (action?.seconds ?? 5) * 1000);
}

/** Do it, and say what is wrong where it cannot be done. @param {() => Promise<any>} run @param {string} [done] */
export async function attempt(run, done) {
  try {
    await run();
    if (done) notice(done);
  } catch (error) {
    notice(sentence(error));
  }
}

/** A number that somebody has typed, or nothing. @param {any} text */
export function numberOf(text) {
  const said = String(text ?? '').trim();
  return said === '' || !Number.isFinite(Number(said)) ? undefined : Number(said);
}
