// The page follows a stream of reports, one a second, and draws them.

import {Chart} from './chart.js';
import * as lists from './lists.js';
import * as locks from './locks.js';
import * as why from './why.js';
import {clock, el, long, number, plural, set, show, span} from './text.js';

const keep = 300; // samples
const $ = id => document.getElementById(id);
const words = {voting: 'Voting', quarantined: 'Quarantined', down: 'Down', refused: 'Refused'};

let samples = [];
let last = null; // the last report
let heard = 0; // when it came, performance.now()
let broken = 0; // the time when the stream broke; 0: it is connected
const cards = new Map(); // of masters, by place

const perSecond = v => number(v);
const charts = [
  new Chart($('chart-rate'), 'Locks per second', [{name: 'granted', of: s => s.granted}, {name: 'not granted', of: s => s.taken}], perSecond, 1, 'No samples yet'),
  new Chart($('chart-latency'), 'LOCK latency', [{name: 'median', of: s => s.lock50}, {name: '99th percentile', of: s => s.lock99}], span, 1, 'No LOCK in five minutes'),
  new Chart($('chart-wait'), 'Waiting for a lock', [{name: 'median', of: s => s.wait50}, {name: '99th percentile', of: s => s.wait99}], span, 1, 'No LOCK with WAIT was granted'),
  new Chart($('chart-errors'), 'Errors per second', [{name: 'errors', of: s => s.errors}], perSecond, 1, 'No samples yet'),
];

function draw() { for (const chart of charts) chart.update(samples); }

function report(r) {
  last = r;
  heard = performance.now();
  if (r.sample && (!samples.length || r.sample.at > samples[samples.length - 1].at)) {
    samples = [...samples, r.sample].slice(-keep);
    draw();
  }
  health(r);
  problems(r.problems);
  set($('where'), [r.host, ...r.listen].filter(Boolean).join(' · '));
  set($('version'), r.version);
  set($('quorum'), r.quorum);
  r.masters.forEach(master);
  locks.setMasters(r.masters.length);
  upstream(r.upstream);
  tiles(r);
  locks.setRelease(r.no_release);
  lists.showWaiting(r.waiting, r.waited_keys);
  lists.showFought(r.fought);
  lists.showFaults(r.faults, samples);
  lists.showRefused(r.refused);
  tick();
}

// risk describes how missing or slow masters affect the locks.
function risk(r, away) {
  if (r.spare < 0) return 'but slow';
  if (r.spare === 0) return 'at its last majority';
  return [away && plural(away, 'master', 'masters') + ' away', r.slow && plural(r.slow, 'master', 'masters') + ' slow'].filter(Boolean).join(', ');
}

function health(r) {
  const away = r.masters.length - r.voting;
  const bad = r.problems.some(p => p.tone === 'bad');
  const [tone, text] = r.draining ? ['warn', 'Ending'] : bad ? ['bad', r.upstream.up ? 'No quorum' : 'Not ready'] :
    away || r.slow ? ['warn', 'Ready, ' + risk(r, away)] : ['good', 'Ready'];
  $('health').dataset.tone = tone;
  set($('health-text'), text);
  document.title = (tone === 'good' ? '' : text + ' · ') + (r.host ? r.host + ' · ' : '') + 'lockproxy';
}

// problems shows what is wrong and what to do next. The rows stay while their texts change.
function problems(list) {
  const root = $('problems');
  show(root, list.length > 0);
  list.forEach((p, i) => {
    if (!root.children[i]) root.append(problemRow());
    const {text, key, act, more} = root.children[i].parts;
    root.children[i].dataset.tone = p.tone;
    set(text, p.text);
    show(key, Boolean(p.hex));
    if (p.hex) why.link(key, p);
    set(act, p.do);
    show(more, p.alert !== '');
    set(more, p.alert);
    more.setAttribute('href', 'operations#' + p.alert);
  });
  while (root.children.length > list.length) root.lastChild.remove();
}

function problemRow() {
  const parts = {text: el('span', 'what'), key: el('span', 'key'), act: el('span'), more: el('a')};
  const row = el('li', '', el('p', '', parts.text, ' ', parts.key), el('p', 'act', parts.act, ' ', parts.more));
  row.parts = parts;
  return row;
}

function card() {
  const c = {lamp: el('span', 'lamp'), state: el('span', 'state'), rtt: el('span', 'rtt'), name: el('div', 'name'), reason: el('div', 'reason'),
    left: el('span', ''), bar: el('i', ''), facts: el('div', 'facts'), troubles: el('div', 'facts')};
  c.count = el('div', 'count', el('span', '', 'votes in'), c.left);
  c.track = el('div', 'bar', c.bar);
  c.root = el('article', 'master', el('div', 'row', c.lamp, c.state, c.rtt), c.name, c.reason, c.count, c.track, c.facts, c.troubles);
  $('masters').append(c.root);
  return c;
}

function master(m, i) {
  if (!cards.has(i)) cards.set(i, card());
  const c = cards.get(i);
  c.root.dataset.state = c.lamp.dataset.state = m.state;
  c.root.toggleAttribute('data-slow', m.slow);
  c.lamp.toggleAttribute('data-slow', m.slow);
  set(c.state, (words[m.state] || m.state) + (m.slow ? ', slow' : ''));
  set(c.rtt, m.state === 'down' || !m.rtt_ms ? '' : span(m.rtt_ms));
  set(c.name, m.name);
  c.name.title = m.name;
  set(c.reason, m.votes_in_ms > 0 ? m.reason.replace(/, votes in \d+s$/, '') : m.reason); // the countdown says that
  show(c.reason, m.reason !== '');
  set(c.facts, 'for ' + long(m.since_ms) + ' · ' + plural(m.grants, 'vote', 'votes'));
  const troubles = [[m.quarantines, 'quarantine', 'quarantines'], [m.lost, 'connection lost', 'connections lost'], [m.errors, 'error', 'errors'],
    [m.late, 'late vote', 'late votes']];
  set(c.troubles, troubles.filter(f => f[0]).map(f => plural(...f)).join(' · '));
  show(c.troubles, c.troubles.textContent !== '');
  c.until = m.votes_in_ms > 0 ? performance.now() + m.votes_in_ms : 0;
  c.whole = c.until ? Math.max(m.votes_in_ms + m.since_ms, c.whole || 0) : 0;
  show(c.count, c.until > 0);
  show(c.track, c.until > 0);
}

function upstream(u) {
  $('upstream-lamp').dataset.state = u.up ? 'up' : 'down';
  set($('upstream-state'), u.up ? 'Answers' : 'Gives no answer');
  const more = u.up ? [u.name, span(u.rtt_ms), plural(u.connections, 'connection', 'connections')] : [u.name, u.reason];
  set($('upstream-more'), more.filter(Boolean).join(' · '));
}

function tiles(r) {
  const s = r.sample || samples[samples.length - 1];
  if (s) {
    set($('now-granted'), perSecond(s.granted));
    set($('now-taken'), s.taken ? perSecond(s.taken) + '/s not granted' : s.errors ? perSecond(s.errors) + '/s errors' : '');
    set($('now-commands'), perSecond(s.commands));
  }
  set($('now-unanswered'), r.upstream.unanswered ? plural(r.upstream.unanswered, 'unanswered', 'unanswered') : '');
  set($('now-clients'), number(r.clients));
  set($('now-sessions'), r.session_locks ? plural(r.session_locks, 'session lock', 'session locks') : '');
  set($('now-waiters'), number(r.waiters));
  set($('now-keys'), [r.waited_keys && 'for ' + plural(r.waited_keys, 'key', 'keys'), r.followers && plural(r.followers, 'follows', 'follow'),
    r.unsent && plural(r.unsent, 'LOCK', 'LOCKs') + ' not sent to the masters yet'].filter(Boolean).join(' · '));
}

// tick counts on between reports.
function tick() {
  if (!last) return;
  const passed = performance.now() - heard;
  set($('uptime'), 'up ' + long(last.now - last.started + passed));
  for (const c of cards.values()) {
    if (!c.until) continue;
    const left = Math.max(c.until - performance.now(), 0);
    set(c.left, Math.ceil(left / 1000) + '\u202fs');
    c.bar.style.width = 100 * left / Math.max(c.whole, 1) + '%';
  }
  if (!broken && passed > 5000) lost(); // a stream that is silent is no better than a broken one
}

function lost() {
  if (!broken) broken = Date.now();
  const text = last ? `No news since ${clock(Date.now() - (performance.now() - heard))}: what you see may have changed. Trying to connect again…` :
    'No connection with lockproxy. Trying again…';
  set($('notice'), text);
  show($('notice'), true);
  $('health').dataset.tone = 'idle';
  set($('health-text'), 'No news');
  document.querySelector('.frame').classList.add('stale');
}

function found() {
  broken = 0;
  set($('notice'), '');
  show($('notice'), false);
  document.querySelector('.frame').classList.remove('stale');
}

let source = null;

function follow() {
  if (source) source.close();
  source = new EventSource('events');
  source.addEventListener('history', e => {
    samples = JSON.parse(e.data) || [];
    draw();
  });
  source.addEventListener('report', e => {
    found();
    report(JSON.parse(e.data));
  });
  source.onerror = () => {
    lost();
    if (source.readyState === EventSource.CLOSED) setTimeout(follow, 2000); // refused, not only broken: the browser has given up
  };
}

locks.start();
why.start();
setInterval(tick, 250);
document.addEventListener('visibilitychange', draw);
follow();
