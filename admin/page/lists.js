// Lists of this proxy's own data: waiting clients, contended keys and errors.

import {el, number, plural, set, show, span} from './text.js';
import {Table, fold} from './table.js';
import {link} from './why.js';

const longWait = 60000; // from here on a wait is a problem
const $ = id => document.getElementById(id);
const dash = (cell, text, title) => {
  set(cell, text || '–');
  cell.classList.toggle('nothing', !text);
  cell.title = title || text || '';
};

function waiterText(w) {
  return [w.owner || 'no label', w.from, w.mode === 'exclusive' ? '' : w.mode, 'for ' + span(w.since_ms)].filter(Boolean).join(' · ');
}

const waiting = new Table($('waiting'), {
  caption: 'keys waited for', id: r => r.hex, sort: 1, down: true, className: 'stack',
  columns: [
    {name: 'Key', className: 'key', of: r => r.key, fill: link},
    {name: 'Longest', label: 'longest', className: 'num w-small', down: true, of: r => r.longest_ms, fill: (c, r) => {
      set(c, span(r.longest_ms));
      c.dataset.tone = r.longest_ms > longWait ? 'warn' : '';
    }},
    {name: 'Clients', label: 'clients', className: 'num w-small', down: true, of: r => r.clients, fill: (c, r) => set(c, number(r.clients))},
    {name: 'Who waits, from where, for how long', label: 'first', className: 'w-half who', of: r => r.first.length ? waiterText(r.first[0]) : '', fill: waiters},
  ],
});

function waiters(cell, r) {
  const more = r.first.slice(1).map(waiterText);
  if (r.clients > r.first.length) more.push(`and ${number(r.clients - r.first.length)} more: press the key`);
  fold(cell, r.first.length ? waiterText(r.first[0]) : '–', more);
}

// showWaiting shows the keys that clients of this proxy wait for.
export function showWaiting(list, keys) {
  set($('waiting-count'), keys ? plural(keys, 'key', 'keys') + (keys > list.length ? `, ${list.length} with the longest waits or the most clients` : '') : '');
  waiting.update(list, 'No client of this proxy waits for a lock.');
}

function holderText(h) {
  const held = h.held_ms === null ? '' : 'held ' + span(h.held_ms);
  return [h.owner || 'no label', h.client, `granted ${span(h.ago_ms)} ago`, held].filter(Boolean).join(' · ');
}

const fought = new Table($('fought'), {
  caption: 'contended keys', id: r => r.hex, sort: 3, down: true, className: 'stack',
  columns: [
    {name: 'Key', className: 'key', of: r => r.key, fill: link},
    {name: 'Refused', label: 'refused', className: 'num w-small', down: true, of: r => r.refused, fill: (c, r) => set(c, number(r.refused))},
    {name: 'Waited', label: 'waited', className: 'num w-small', down: true, of: r => r.waited, fill: (c, r) => set(c, number(r.waited))},
    {name: 'Longest', label: 'longest', className: 'num w-small', down: true, of: r => r.longest_ms, fill: (c, r) => dash(c, r.waited ? span(r.longest_ms) : '')},
    {name: 'Mean', label: 'mean', className: 'num w-small', down: true, of: r => r.mean_ms, fill: (c, r) => dash(c, r.waited ? span(r.mean_ms) : '')},
    {name: 'Last holders', label: 'last holders', className: 'w-half who', of: r => r.holders.length ? r.holders[0].owner : '', fill: holders},
  ],
});

function holders(cell, r) {
  fold(cell, r.holders.length ? holderText(r.holders[0]) : 'not through this proxy', r.holders.slice(1).map(holderText));
}

export function showFought(list) {
  set($('fought-count'), list.length ? plural(list.length, 'key', 'keys') : '');
  fought.update(list, 'No LOCK met another holder in the last minutes.');
}

const sources = {reply: 'Reply to a client', session: 'SESSION lock', master: 'Reply of a master', upstream: 'Dial of the upstream'};
const meanings = {
  'reply noquorum': 'NOQUORUM: too few masters answered', 'reply tryagain': 'TRYAGAIN: decided too late, the masters were busy, or the proxy was ending',
  'reply queue_full': 'LOCKQUEUEFULL: max-waiters clients waited already', 'reply undelivered': 'granted, but the client was gone: released',
  'reply internal': 'ERR internal: the log says more', 'reply invalid': 'the client sent wrong arguments',
  'reply denied': 'NOAUTH or NOPERM', 'session lost': 'it could not be renewed in time',
  'master LOADING': 'it reads its data after a start', 'master READONLY': 'it is a replica', 'master MISCONF': 'it cannot write to its disk',
  'master OOM': 'its memory is full', 'master NOAUTH': 'it wants a password', 'master NOPERM': 'the user may not do that there',
  'master repairs dropped': 'releases and top-ups that were given up',
  'upstream refused': 'no server listens there', 'upstream timeout': 'no answer in time', 'upstream dns': 'the name is not known',
  'upstream tls': 'the TLS handshake failed', 'upstream auth': 'it refused the password', 'upstream closed': 'it closed the connection',
};
const name = r => r.source + ' ' + r.kind;

const faults = new Table($('faults'), {
  caption: 'errors by kind', id: name, sort: 3, down: true, className: 'stack',
  columns: [
    {name: 'Kind', className: 'key', of: r => r.kind},
    {name: 'Where', label: 'where', className: 'w-where', of: r => sources[r.source] || r.source},
    {name: 'What it means', label: 'means', className: 'w-half', of: r => meanings[name(r)] || '', fill: (c, r) => dash(c, meanings[name(r)])},
    {name: 'Five minutes', label: 'in five minutes', className: 'num w-count', down: true, of: r => r.recent, fill: (c, r) => dash(c, r.recent ? number(r.recent) : '')},
    {name: 'Since start', label: 'since the start', className: 'num w-count', down: true, of: r => r.total, fill: (c, r) => set(c, number(r.total))},
  ],
});

// showFaults shows the errors since the start, and how many of them are in the samples.
export function showFaults(list, samples) {
  const recent = {};
  for (const s of samples) for (const [kind, n] of Object.entries(s.faults || {})) recent[kind] = (recent[kind] || 0) + n;
  set($('faults-count'), list.length ? plural(list.length, 'kind', 'kinds') : '');
  faults.update(list.map(r => ({...r, recent: recent[name(r)] || 0})), 'No errors since the proxy started.');
}

const remedies = {
  no_expiry: 'set a timeout in the library, or adopt-ttl here', ttl: 'ask for a ttl between min-ttl and max-ttl, or raise max-ttl',
  script: 'no known form: docs/adopting.md lists the libraries that work', command: 'no command on locks: keep the key out of adopt-keys, or use a library that works',
  keys: 'lock one key at a time', transaction: 'the library uses MULTI: use one that works', value: 'use a value of 1 to 512 bytes',
};

const refused = new Table($('refused'), {
  caption: 'refused commands of lock libraries', id: r => r.reason + ' ' + r.sha1, sort: 3, down: true, className: 'stack',
  columns: [
    {name: 'Reason', className: 'w-where', of: r => r.reason},
    {name: 'Latest', label: 'latest', className: 'w-half who', of: r => r.text, fill: (c, r) => fold(c, r.text, [[r.library || 'no library named', r.client, span(r.ago_ms) + ' ago'].join(' · ')])},
    {name: 'What to do', label: 'what to do', className: 'w-half', of: r => remedies[r.reason] || '', fill: (c, r) => dash(c, remedies[r.reason])},
    {name: 'Since start', label: 'since the start', className: 'num w-count', down: true, of: r => r.count, fill: (c, r) => set(c, number(r.count))},
  ],
});

// showRefused shows what adopt-listen has refused; null: there is no such listener.
export function showRefused(list) {
  show($('refused-section'), list !== null);
  if (list === null) return;
  set($('refused-count'), list.length ? plural(list.length, 'kind', 'kinds') : '');
  refused.update(list, 'Nothing was refused since the proxy started.');
}
