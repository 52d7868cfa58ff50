// The list of locks: asked for by hand, then kept fresh while the page is looked at. Keys and labels come from anywhere: text only.

import {el, number, plural, set, show, span} from './text.js';

const refreshEvery = 5000;
const $ = id => document.getElementById(id);

let search = null; // what is shown; null before anything was asked
let pages = 0; // how many pages are shown
let cursor = '0';
const longest = new Map(); // the longest time left that was seen of a lock
let locks = []; // {..., seen: when it was told, performance.now()}
let masters = 0;
let busy = false;

export function setMasters(n) { masters = n; }

async function ask(from) {
  const answer = await fetch('locks?' + new URLSearchParams({search, cursor: from}), {headers: {Accept: 'application/json'}});
  if (!answer.ok) throw new Error((await answer.text()).trim() || answer.statusText);
  const page = await answer.json(), seen = performance.now();
  cursor = page.cursor;
  pages++;
  return page.locks.map(lock => ({...lock, seen}));
}

// load shows the first page, or one more. Where nobody asked just now an error leaves what is shown.
async function load(more, unasked) {
  if (busy) return;
  busy = true;
  $('search-go').disabled = $('more').disabled = true;
  try {
    if (!more) { pages = 0; cursor = '0'; }
    const found = await ask(more ? cursor : '0');
    const known = new Map(more ? locks.map(lock => [lock.key, lock]) : []);
    for (const lock of found) known.set(lock.key, lock);
    if (longest.size > 5000) longest.clear();
    locks = [...known.values()].sort((a, b) => a.key < b.key ? -1 : 1);
    render();
    set($('locks-hint'), 'Asked for again every five seconds while you look.');
  } catch (err) {
    if (unasked) set($('locks-hint'), 'The last refresh failed: ' + err.message);
    else message('The masters gave no list: ' + err.message);
  } finally {
    busy = false;
    $('search-go').disabled = $('more').disabled = false;
  }
}

function message(text) {
  $('held').replaceChildren(el('p', 'empty', text));
  set($('held-count'), '');
  show($('more'), false);
}

function render() {
  show($('more'), cursor !== '0');
  set($('search-go'), 'Refresh');
  if (!locks.length) {
    message(cursor !== '0' ? 'None among the keys looked at so far.' : search ? 'No lock matches.' : 'No locks are held.');
    show($('more'), cursor !== '0');
    return;
  }
  set($('held-count'), plural(locks.length, 'lock', 'locks') + (cursor !== '0' ? ' so far' : ''));
  const head = el('tr', '', el('th', '', 'Key'), el('th', 'w-owner', 'Owner'), el('th', 'num w-age', 'Age'), el('th', 'num w-held', 'Masters'),
    el('th', 'num w-wait', 'Waiting'), el('th', 'w-left', 'Time left'));
  const body = el('tbody', '', ...locks.map(row));
  $('held').replaceChildren(el('table', 'held', el('thead', '', head), body));
  tick();
}

function cell(className, label, ...children) {
  const e = el('td', className, ...children);
  if (label) e.dataset.label = label;
  return e;
}

// kind says who else holds the lock; nothing of one holder.
function kind(lock) {
  switch (lock.mode) {
  case 'shared': return 'shared by ' + number(lock.holders);
  case 'limit': return plural(lock.holders, 'slot', 'slots') + ' taken';
  case 'kept': return 'kept closed';
  }
  return '';
}

function row(lock) {
  const key = cell('key', '', lock.key);
  key.title = lock.key + (lock.fence === '0' ? '' : '\nfence ' + lock.fence);
  const owner = cell(lock.owner ? '' : 'nothing', 'owner', lock.owner || '–');
  owner.title = lock.owner;
  const together = kind(lock);
  if (together) key.append(el('small', 'kind', together));
  for (const slot of lock.slots || []) key.title += `\nslot ${slot.slot}: ${slot.owner || 'no label'}, fence ${slot.fence}, ${span(slot.ttl_ms)} left`;
  const age = cell('num', 'age', '–');
  if (lock.age_ms === null) age.title = together ? 'not told where several may hold a lock' : 'not known: granted through another proxy, or too long ago';
  const left = el('span', '', '–'), bar = el('i', '');
  const tr = el('tr', '', key, owner, age, cell('num', 'masters', masters ? `${lock.held}/${masters}` : String(lock.held)),
    cell(lock.waiting ? 'num' : 'num nothing', 'waiting', lock.waiting ? number(lock.waiting) : '–'), cell('', 'left', left, el('div', 'bar', bar)));
  lock.nodes = {tr, age, left, bar};
  const young = lock.age_ms !== null && lock.age_ms < 3 * lock.ttl_ms; // else it was renewed, and its age says nothing of the ttl
  lock.most = Math.max(lock.ttl_ms + (young ? lock.age_ms : 0), longest.get(lock.key + ' ' + lock.fence) || 0, 1);
  longest.set(lock.key + ' ' + lock.fence, lock.most);
  return tr;
}

// tick counts ages and times left on.
export function tick() {
  const now = performance.now();
  for (const lock of locks) {
    if (!lock.nodes) continue;
    const passed = now - lock.seen, left = lock.ttl_ms - passed;
    if (lock.age_ms !== null) set(lock.nodes.age, span(lock.age_ms + passed));
    set(lock.nodes.left, lock.ttl_ms < 0 ? 'no end' : left > 0 ? span(left) : 'over');
    const share = lock.ttl_ms < 0 ? 1 : Math.min(Math.max(left / lock.most, 0), 1);
    lock.nodes.bar.style.width = 100 * share + '%';
    lock.nodes.bar.className = share < 0.2 ? 'low' : '';
    lock.nodes.tr.className = lock.ttl_ms >= 0 && left <= 0 ? 'gone' : '';
  }
}

// showWaiting is the list of keys that clients of this proxy wait for.
export function showWaiting(list, keys) {
  set($('waiting-count'), keys ? plural(keys, 'key', 'keys') + (keys > list.length ? `, the ${list.length} longest lines` : '') : '');
  const matching = search ? list.filter(w => matches(w.key)) : list;
  if (!matching.length) {
    $('waiting').replaceChildren(el('p', 'empty', list.length ? 'None of the keys waited for matches.' : 'Nobody waits for a lock here.'));
    return;
  }
  const head = el('tr', '', el('th', '', 'Key'), el('th', 'num w-clients', 'Clients'), el('th', 'num w-long', 'First for'));
  const rows = matching.map(w => {
    const key = el('td', 'key', w.key);
    key.title = w.key;
    return el('tr', '', key, el('td', 'num', number(w.clients)), el('td', 'num', span(w.longest_ms)));
  });
  $('waiting').replaceChildren(el('table', '', el('thead', '', head), el('tbody', '', ...rows)));
}

function matches(key) {
  return /[*?[]/.test(search) || key.includes(search); // patterns are the masters' business
}

export function start() {
  $('search').addEventListener('submit', e => {
    e.preventDefault();
    search = $('search-text').value.trim();
    load(false);
  });
  $('search-text').addEventListener('input', () => set($('search-go'), search === $('search-text').value.trim() ? 'Refresh' : 'Show locks'));
  $('more').addEventListener('click', () => load(true));
  setInterval(tick, 250);
  setInterval(() => {
    const asked = search !== null && pages <= 1 && search === $('search-text').value.trim();
    if (asked && !document.hidden && !$('notice').textContent) load(false, true);
  }, refreshEvery);
}
