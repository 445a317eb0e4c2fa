/** Who may log in, whatever the protocol. */

import { at, get, request } from '../core/api.js';
import { h } from '../core/dom.js';
import { button, panel, tag } from '../core/facts.js';
import { ask, attempt } from '../core/form.js';
import { count } from '../core/format.js';
import { table } from '../core/table.js';

const SHOWN = 200;
const ROLES = /** @type {[string, string][]} */ ([['administrator', 'administrator: everything'], ['monitoring', 'monitoring: reads what is no message'], ['', 'none: the rights that it was given']]);

/** @param {any} context */
export function users(context) {
  /** @type {any[]|null} */ let found = null;
  let refusal = '';
  return {
    /** @param {AbortSignal} signal */
    async refresh(signal) {
      try {
        found = (await get('v1/users', { limit: SHOWN }, { signal })).users;
        refusal = '';
      } catch (error) {
        if (signal.aborted) throw error;
        refusal = /** @type {Error} */ (error).message;
      }
    },
    view() {
      if (refusal) return panel('Users', h('p', { class: 'muted' }, `They are not shown: ${refusal}.`));
      return panel('Users', table({
        label: 'Users', rows: found, key: (one) => one.name, sorted: 'none', empty: 'There is no user: who reaches the port may use it.',
        columns: [
          { title: 'Name', kind: 'strong', cell: (one) => one.name }, { title: 'Roles', cell: (one) => one.roles.map((/** @type {string} */ role) => [tag(role), ' ']) },
          { title: 'Logs in by', rank: 2, cell: (one) => one.proofs.join(', ') || h('span', { class: 'muted' }, 'nothing') },
          { title: 'Sessions', number: true, rank: 3, cell: (one) => count(one.sessions) }, { title: '', rank: 2, cell: (one) => one.disabled ? tag('disabled', 'warn') : null },
          { title: '', kind: 'tools', cell: (one) => [
            button('Change', () => edit(one, context), '', { 'aria-label': `Change ${one.name}` }), ' ',
            one.sessions ? [button('Log out', () => attempt(async () => { await request('DELETE', `${at('users', one.name)}/sessions`); context.again(); }, `${one.name} is logged out everywhere.`)), ' '] : null,
            button('Delete', () => ask({ title: `Delete ${one.name}`, text: 'Its connections are closed.', action: 'Delete', danger: true, confirm: one.name, submit: async () => { await request('DELETE', at('users', one.name)); context.again(); } }), '', { 'aria-label': `Delete ${one.name}` })] },
        ],
      }), button('Create user', () => edit(null, context)));
    },
  };
}

/** @param {any} one @param {any} context */
function edit(one, context) {
  ask({
    title: one ? `Change ${one.name}` : 'Create a user', action: 'Save',
    fields: [
      { name: 'name', label: 'Name', required: true, when: () => !one },
      { name: 'password', label: 'Password', type: 'password', hint: one ? 'Empty: as it is. Another one ends the sessions of the user.' : '' },
      { name: 'role', label: 'Role', type: 'choice', value: one ? one.roles[0] ?? '' : 'administrator', options: one?.roles[0] && !ROLES.some(([role]) => role === one.roles[0]) ? [...ROLES, [one.roles[0], one.roles[0]]] : ROLES },
      { name: 'disabled', label: 'May not log in', type: 'check', value: one?.disabled ?? false },
    ],
    submit: async (values) => {
      const wish = { disabled: values.disabled, ...(values.password ? { password: values.password } : {}), ...(one && values.role === (one.roles[0] ?? '') ? {} : { roles: values.role ? [values.role] : [] }) };
      await (one ? request('PATCH', at('users', one.name), wish) : request('POST', 'v1/users', { name: values.name, ...wish }));
      context.again();
    },
  });
}
