// The list of locks: asked for by hand, then kept fresh while the page is looked at. Keys and labels come from anywhere: text only.

import {el, number, plural, set, show, span} from './text.js';
import {Table, button, fold} from './table.js';
import * as release from './release.js';
import * as why from './why.js';

const refreshEvery = 5000;
const atOnce = 500; // locks for one press of Next on the last page
const atMost = 5000; // locks in the page
const $ = id => document.getElementById(id);

let search = null; // the search that is shown; null before the first one
let pages = 0; // how many pages are shown
let cursor = '0';
let locks = []; // {..., seen: when the answer came, performance.now()}
let masters = 0;
let minority = ''; // what the list leaves out for want of a quorum
let busy = false;

export function setMasters(n) { masters = n; }

async function ask(from) {
  const answer = await fetch('locks?' + new URLSearchParams({search, cursor: from}), {headers: {Accept: 'application/json'}});
  if (!answer.ok) throw new Error((await answer.text()).trim() || answer.statusText);
  const page = await answer.json(), seen = performance.now();
  cursor = page.cursor;
  pages++;
  minority = page.quorum === false ? `Seen on ${page.seen} of ${plural(page.masters, 'master', 'masters')}, without a quorum: others may be missing.` : '';
  return page.locks.map(lock => ({...lock, seen}));
}

// load shows the first page, or adds the next one. If the user did not ask for it, an error leaves
// the list unchanged.
async function load(more, unasked) {
  if (busy) return;
  busy = true;
  $('search-go').disabled = true;
  try {
    if (!more) { pages = 0; cursor = '0'; }
    const known = new Map(more ? locks.map(lock => [lock.hex, lock]) : []), before = known.size;
    do {
      for (const lock of await ask(cursor)) known.set(lock.hex, lock);
    } while (more && cursor !== '0' && known.size < Math.min(before + atOnce, atMost));
    locks = [...known.values()];
    render();
    if (!unasked) set($('told'), plural(locks.length, 'lock', 'locks') + (cursor !== '0' ? ', there are more' : ''));
    set($('minority'), minority);
    show($('minority'), minority !== '');
    set($('locks-hint'), pages > 1 ? 'Asked for again when you press Refresh.' : 'Asked for again every five seconds while you look.');
  } catch (err) {
    if (unasked && locks.length) set($('locks-hint'), 'The last refresh failed: ' + err.message);
    else {
      set($('locks-hint'), '');
      message('The masters gave no list: ' + err.message);
    }
  } finally {
    busy = false;
    $('search-go').disabled = false;
  }
}

function message(text) {
  locks = [];
  held.more = null;
  held.update(locks, text);
  set($('held-count'), '');
  set($('told'), text);
}

function render() {
  set($('search-go'), 'Refresh');
  const more = cursor !== '0' && locks.length < atMost;
  if (!locks.length && !more) message(search ? 'No lock matches.' : 'No locks are held.');
  else {
    held.more = more ? () => load(true) : null;
    held.update(locks, 'None among the keys looked at so far.');
    set($('held-count'), plural(locks.length, 'lock', 'locks') + (cursor !== '0' ? ' so far' : ''));
  }
  tick();
}

// kind says who may hold the lock.
export function kind(lock) {
  switch (lock.mode) {
  case 'shared': return 'shared, ' + plural(lock.holders, 'reader', 'readers');
  case 'limit': return 'limit, ' + plural(lock.holders, 'slot', 'slots') + ' taken';
  case 'kept': return 'kept closed';
  }
  if (lock.adopted) return lock.mode + ', adopted';
  return lock.mode;
}

function slotText(slot) { return [`slot ${slot.slot}`, slot.owner || 'no label', 'fence ' + slot.fence, span(slot.ttl_ms) + ' left'].join(' · '); }

function ageCell(cell, lock) {
  cell.title = lock.age_ms !== null ? '' : lock.mode === 'exclusive' ? 'not known: granted through another proxy, or too long ago' : 'not known if several may hold the lock';
  cell.classList.toggle('nothing', lock.age_ms === null);
}

function leftCell(cell, lock) {
  cell.title = lock.ttl_ms < 0 || lock.granted_ttl_ms ? '' : 'its ttl is not known: granted through another proxy, too long ago, or before others';
  if (cell.bar) return;
  cell.text = el('span');
  cell.bar = el('div', 'bar', el('i'));
  cell.append(cell.text, cell.bar);
}

function releaseCell(cell, lock) {
  if (!cell.firstChild) cell.append(button('Release…', () => release.ask(cell.lock, kind(cell.lock)), 'small'));
  cell.lock = lock;
  cell.firstChild.setAttribute('aria-label', 'Release ' + lock.key);
}

const numeric = (name, label, className, of, fill) => ({name, label, className: 'num ' + className, down: true, of, fill});
const held = new Table($('held'), {
  caption: 'locks held', id: lock => lock.hex, sort: 0, className: 'held stack',
  columns: [
    {name: 'Key', className: 'key', of: lock => lock.key, fill: why.link},
    {name: 'Owner', label: 'owner', className: 'w-owner', of: lock => lock.owner, fill: (c, lock) => {
      set(c, lock.owner || '–');
      c.title = lock.owner;
      c.classList.toggle('nothing', !lock.owner);
    }},
    {name: 'Kind', label: 'kind', className: 'w-kind who', of: kind, fill: (c, lock) => fold(c, kind(lock), (lock.slots || []).map(slotText))},
    numeric('Age', 'age', 'w-small', lock => lock.age_ms === null ? -1 : lock.age_ms + performance.now() - lock.seen, ageCell),
    numeric('Masters', 'masters', 'w-small', lock => lock.held, (c, lock) => set(c, masters ? `${lock.held}/${masters}` : String(lock.held))),
    numeric('Waiting', 'waiting', 'w-small', lock => lock.waiting, (c, lock) => {
      set(c, lock.waiting ? number(lock.waiting) : '–');
      c.classList.toggle('nothing', !lock.waiting);
    }),
    {name: 'Time left', label: 'left', className: 'w-left', of: lock => lock.ttl_ms < 0 ? Infinity : lock.ttl_ms - (performance.now() - lock.seen), fill: leftCell},
    {name: 'Release', hidden: true, className: 'w-release', fill: releaseCell},
  ],
});
held.update([], 'Search, or show all locks.');

// tick counts ages and times left on, of the rows that are shown.
export function tick() {
  const now = performance.now();
  for (const [lock, cells] of held.visible()) {
    const passed = now - lock.seen, left = lock.ttl_ms - passed, cell = cells[6];
    set(cells[3], lock.age_ms === null ? '–' : span(lock.age_ms + passed));
    const of = lock.granted_ttl_ms && lock.ttl_ms >= 0 ? ` of ${span(lock.granted_ttl_ms)}` : '';
    set(cell.text, lock.ttl_ms < 0 ? 'no end' : left > 0 ? span(left) + of : 'over');
    why.bar(cell.bar, lock.ttl_ms, left, lock.granted_ttl_ms);
    cell.parentNode.className = lock.ttl_ms >= 0 && left <= 0 ? 'gone' : '';
  }
}

held.after = tick;

// setRelease says whether locks can be released here, and if not, why.
export function setRelease(reason) {
  $('held').classList.toggle('fixed', reason !== '');
  release.allow(reason === '');
  set($('no-release'), reason ? 'Locks are not released here: ' + reason : '');
  show($('no-release'), reason !== '');
}

export function start() {
  release.start(() => {
    if (search !== null) load(false, true);
    why.refresh();
  });
  $('search').addEventListener('submit', e => {
    e.preventDefault();
    search = $('search-text').value.trim();
    set($('said'), '');
    load(false);
  });
  $('search-text').addEventListener('input', () => set($('search-go'), search === $('search-text').value.trim() ? 'Refresh' : 'Show locks'));
  $('search-why').addEventListener('click', () => {
    const key = $('search-text').value.trim();
    if (key) why.open(key);
    else $('search-text').focus();
  });
  setInterval(tick, 250);
  setInterval(() => {
    const asked = search !== null && pages <= 1 && search === $('search-text').value.trim();
    if (asked && !document.hidden && !$('notice').textContent) load(false, true);
  }, refreshEvery);
}
