// Releasing a lock: asked for in a dialog, and done by a request that no page of another site can send.

import {plural, set} from './text.js';

const $ = id => document.getElementById(id);
let lock = null; // that the dialog is about
let done = () => {};
let may = false;

export function allow(yes) { may = yes; }
export function allowed() { return may; }

// ask opens the dialog for a lock.
export function ask(which, kind) {
  lock = which;
  set($('release-key'), lock.key);
  const facts = [kind, lock.owner && 'owner ' + lock.owner, lock.fence !== '0' && 'fence ' + lock.fence, lock.waiting && plural(lock.waiting, 'client waits', 'clients wait')];
  set($('release-facts'), facts.filter(Boolean).join(' · '));
  set($('release-who'), lock.holders > 1 ? `All ${lock.holders} holders lose it.` : lock.mode === 'kept' ? 'It has no holder: it is open again at once.' : 'Its holder loses it.');
  set($('release-error'), '');
  $('release-go').disabled = false;
  $('release').showModal();
  $('release-no').focus();
}

async function go() {
  const {hex, fence, key} = lock;
  $('release-go').disabled = true;
  try {
    const answer = await fetch('release', {method: 'POST', headers: {'Content-Type': 'application/json', 'X-Lockproxy': 'page'}, body: JSON.stringify({key: hex, fence})});
    if (!answer.ok) throw new Error((await answer.text()).trim() || answer.statusText);
    const {freed} = await answer.json();
    $('release').close();
    set($('said'), freed ? `Released ${key}.` : `${key} was not held any more.`);
    $('search-go').focus(); // the button of the row goes with its row
    done();
  } catch (err) {
    set($('release-error'), 'Not released: ' + err.message);
    $('release-go').disabled = false;
  }
}

// start gets a function to call after a release.
export function start(after) {
  done = after;
  $('release-go').addEventListener('click', go);
  $('release-no').addEventListener('click', () => $('release').close());
}
