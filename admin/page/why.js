// The dialog "why is this key taken": who holds the key, who waits, and what to do next. It is open
// while the address ends in #why= and the key, so that it can be linked to.

import {clock, el, encoded, long, number, plural, set, show, span} from './text.js';
import {Table} from './table.js';
import * as release from './release.js';

const refreshEvery = 3000;
const $ = id => document.getElementById(id);

let asked = null; // the key as it is in the address; null: the dialog is closed
let why = null; // the last answer
let seen = 0; // when it came, performance.now()
let timer = 0;

const dash = text => text || '–';
const since = h => h.since ? clock(h.since) : '';
const held = h => h.until > h.since ? span(h.until - h.since) : '';

const masters = new Table($('why-masters'), {
  caption: 'answers of the masters', id: m => m.master, sort: 0, className: 'stack tight',
  columns: [
    {name: 'Master', className: 'key', of: m => m.master},
    {name: 'Answer', label: '', className: 'w-half who', of: answer, fill: (c, m) => {
      set(c, answer(m));
      c.dataset.tone = !m.answered ? 'bad' : m.holds ? 'good' : m.other ? 'warn' : 'idle';
    }},
    {name: 'Left', label: 'left', className: 'num w-small', down: true, of: m => m.ttl_ms, fill: (c, m) => nothing(c, m.ttl_ms < 0 ? 'no end' : m.ttl_ms ? span(m.ttl_ms) : '')},
  ],
});

function answer(m) {
  if (!m.answered) return m.error || 'no answer';
  const type = m.type ? ', ' + m.type : '';
  if (m.holds) return why && why.mode === 'foreign' ? 'has it' + type : 'holds it';
  return m.other ? 'has another: ' + m.other + type : 'does not have it';
}

function nothing(cell, text) {
  set(cell, dash(text));
  cell.classList.toggle('nothing', !text);
}

const waiters = new Table($('why-waiters'), {
  caption: 'clients that wait', id: w => w.place, sort: 0, className: 'stack tight',
  columns: [
    {name: 'Place', label: 'place', className: 'num w-place', of: w => w.place},
    {name: 'Owner', label: 'owner', className: 'who', of: w => w.label, fill: (c, w) => nothing(c, w.label)},
    {name: 'From', label: 'from', className: 'who', of: w => w.address, fill: (c, w) => nothing(c, w.address)},
    {name: 'Waits', label: 'waits', className: 'num w-small', down: true, of: w => w.age_ms, fill: (c, w) => set(c, span(w.age_ms))},
    {name: 'Wants', label: 'wants', className: 'w-small', of: w => w.mode, fill: (c, w) => {
      set(c, w.mode);
      c.classList.toggle('nothing', w.mode === 'exclusive');
    }},
  ],
});

const last = new Table($('why-last'), {
  caption: 'earlier holders', id: h => h.fence + ' ' + h.since + ' ' + h.client, sort: 2, down: true, className: 'stack tight',
  columns: [
    {name: 'Owner', label: 'owner', className: 'who', of: h => h.owner, fill: (c, h) => nothing(c, h.owner)},
    {name: 'From', label: 'from', className: 'who', of: h => h.client, fill: (c, h) => nothing(c, h.client)},
    {name: 'Since', label: 'since', className: 'num w-small', down: true, of: h => h.since, fill: (c, h) => nothing(c, since(h))},
    {name: 'Held', label: 'held', className: 'num w-small', down: true, of: h => h.until - h.since, fill: (c, h) => nothing(c, held(h))},
    {name: 'Fence', label: 'fence', className: 'num w-fence', down: true, of: h => h.fence, fill: (c, h) => set(c, String(h.fence))},
  ],
});

const slots = new Table($('why-slots'), {
  caption: 'slots that are taken', id: s => s.slot, sort: 0, className: 'stack tight',
  columns: [
    {name: 'Slot', label: 'slot', className: 'num w-place', of: s => s.slot},
    {name: 'Owner', label: 'owner', className: 'who', of: s => s.owner, fill: (c, s) => nothing(c, s.owner)},
    {name: 'Left', label: 'left', className: 'num w-small', down: true, of: s => s.ttl_ms, fill: (c, s) => set(c, s.ttl_ms < 0 ? 'no end' : span(s.ttl_ms))},
    {name: 'Fence', label: 'fence', className: 'num w-fence', down: true, of: s => s.fence, fill: (c, s) => set(c, String(s.fence))},
  ],
});

// link is a key that opens the dialog.
export function link(cell, row) {
  if (!cell.firstChild) cell.append(el('a'));
  const a = cell.firstChild;
  set(a, row.key);
  a.title = row.key + '\nWhy is it taken?';
  const to = '#why=' + encoded(row.hex);
  if (a.getAttribute('href') !== to) a.setAttribute('href', to);
}

// open opens the dialog for a key that was typed.
export function open(key) { location.hash = 'why=' + encodeURIComponent(key); }

// verdict is the answer in one sentence.
function verdict(w) {
  const who = w.owner ? w.owner : w.client ? w.client : 'a client without a label';
  switch (w.mode) {
  case '': return w.blocked ? 'Nobody holds it, but no majority of the masters is free for LOCK.' : w.quorum ? 'Nobody holds it.' : 'No master that answered has it.';
  case 'foreign': return `No lock: another program's ${w.type || 'key'} has this name on the masters.`;
  case 'kept': return 'Kept closed after its last holder (UNLOCK with KEEP).';
  case 'shared': return w.holders > 1 ? `${number(w.holders)} readers share it, the latest is ${who}.` : `A reader holds it: ${who}.`;
  case 'limit': return `${plural(w.holders, 'holder has a slot', 'holders have slots')}, the latest is ${who}.`;
  }
  return `${who} ${w.error ? 'may hold' : 'holds'} it.`;
}

function fact(name, text, more) {
  if (!text) return [];
  return [el('dt', '', name), el('dd', '', text, ...(more ? [more] : []))];
}

function facts(w) {
  if (!w.mode) return [];
  const lock = w.mode !== 'foreign' && w.mode !== 'kept';
  return [
    ...fact('Since', !lock ? '' : w.since ? `${clock(w.since)}, for ${long(Date.now() - w.since)}` : 'not known to this proxy'),
    ...fact('From', w.client),
    ...fact('Through', w.proxy || (lock ? 'another proxy, or too long ago' : '')),
    ...fact('Fence', w.fence ? String(w.fence) : ''),
    ...fact('On', `${w.held} of ${plural(w.masters, 'master', 'masters')}`),
  ];
}

function left() {
  const ms = why.ttl_ms - (performance.now() - seen);
  show($('why-left'), Boolean(why.mode) && why.ttl_ms !== 0);
  bar($('why-bar'), why.ttl_ms, ms, why.granted_ttl_ms);
  const of = why.granted_ttl_ms ? ` of ${span(why.granted_ttl_ms)}` : '';
  set($('why-left-text'), why.ttl_ms < 0 ? 'It has no end.' : ms > 0 ? `${span(ms)}${of} left` : 'Its time is over.');
}

// bar shows the share of the granted ttl that is left. Without a granted ttl there is no share.
export function bar(track, ttl, left, granted) {
  const share = ttl < 0 ? 1 : granted ? Math.min(Math.max(left / granted, 0), 1) : 0;
  show(track, ttl < 0 || granted > 0);
  track.firstChild.style.width = 100 * share + '%';
  track.firstChild.className = share < 0.2 ? 'low' : share < 0.5 ? 'mid' : '';
}

function render() {
  set($('why-key'), why.key);
  set($('why-verdict'), verdict(why));
  show($('why-minority'), Boolean(why.error));
  set($('why-minority'), why.error ? `Seen on ${why.held} of ${plural(why.masters, 'master', 'masters')}: ${why.quorum ? 'no majority agrees. Those that did not answer would decide.' : 'no quorum. The others may have something else.'}` : '');
  $('why-facts').replaceChildren(...facts(why));
  $('why-advice').replaceChildren(...why.advice.map(line => el('li', '', line)));
  show($('why-next'), why.advice.length > 0);
  masters.update(why.voters);
  slots.update(why.slots || []);
  show($('why-slots-part'), Boolean(why.slots && why.slots.length));
  const waiting = why.waiting === undefined ? why.waiters.length : why.waiting;
  set($('why-waiting-count'), waiting ? plural(waiting, 'client', 'clients') + (waiting > why.waiters.length ? `, the first ${why.waiters.length}` : '') : '');
  waiters.update(why.waiters, 'No client of this proxy waits for it.');
  last.update(why.last, 'This proxy remembers none.');
  show($('why-release'), release.allowed() && why.quorum && Boolean(why.mode) && why.mode !== 'foreign');
  left();
}

async function ask() {
  const key = asked;
  try {
    const answer = await fetch('why?key=' + key, {headers: {Accept: 'application/json'}});
    if (!answer.ok) throw new Error((await answer.text()).trim() || answer.statusText);
    const got = await answer.json();
    if (asked !== key) return;
    why = got;
    seen = performance.now();
    set($('why-error'), '');
    show($('why-body'), true);
    render();
  } catch (err) {
    if (asked === key) set($('why-error'), 'No answer: ' + err.message);
  }
  if (asked === key) timer = setTimeout(again, refreshEvery);
}

// again asks only while the page is visible.
function again() {
  if (document.hidden || $('release').open) timer = setTimeout(again, refreshEvery);
  else ask();
}

// wanted returns the key in the address; null: there is none.
function wanted() {
  const at = /^#why=(.+)$/.exec(location.hash);
  return at && at[1].replace(/[&+;]/g, encodeURIComponent);
}

function follow() {
  const key = wanted();
  if (asked !== null && asked === key) return;
  clearTimeout(timer);
  if (!key) {
    asked = null;
    if ($('why').open) $('why').close();
    return;
  }
  asked = key;
  why = null;
  set($('why-key'), readable(asked));
  set($('why-error'), '');
  show($('why-body'), false);
  show($('why-release'), false);
  if (!$('why').open) $('why').showModal();
  $('why').scrollTop = 0;
  ask();
}

function readable(key) {
  try {
    return decodeURIComponent(key);
  } catch {
    return key; // not UTF-8
  }
}

export function start() {
  $('why').addEventListener('close', () => {
    if ($('why').open) return; // for another key since
    if (asked !== null && asked === wanted()) history.pushState(null, '', location.pathname + location.search);
    follow();
  });
  $('why-close').addEventListener('click', () => $('why').close());
  $('why-release').addEventListener('click', () => release.ask({...why, fence: String(why.fence)}, why.mode));
  addEventListener('hashchange', follow);
  setInterval(() => { if (asked !== null && why) left(); }, 250);
  follow();
}

// refresh asks again, after a release.
export function refresh() {
  if (asked === null) return;
  clearTimeout(timer);
  ask();
}
