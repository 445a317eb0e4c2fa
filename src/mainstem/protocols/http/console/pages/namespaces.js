/** Which namespace is shown, where there is more than one. */

import { get } from '../core/api.js';
import { change, here } from '../core/address.js';
import { h } from '../core/dom.js';

export function namespaceChooser() {
  /** @type {string[]} */
  let names = [];
  let known = 0;
  return {
    /** @param {AbortSignal} signal */
    async refresh(signal) {
      if (Date.now() - known < 30_000) return;
      names = (await get('v1/namespaces', { limit: 500 }, { signal })).namespaces.map((/** @type {any} */ one) => one.name);
      known = Date.now();
    },
    view() {
      const now = here().query.ns ?? 'default';
      if (names.length < 2) return null;
      return h('label', null, h('span', { class: 'unseen' }, 'Namespace'), h('select', {
        value: now, onchange: (/** @type {any} */ event) => change({ ns: event.target.value === 'default' ? '' : event.target.value, after: '', back: '' }),
      }, names.map((name) => h('option', { value: name, selected: name === now }, name))));
    },
  };
}
