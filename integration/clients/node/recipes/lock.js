// A lock of lockproxy for node-redis or ioredis: save this file as lock.js. Times are milliseconds.
//
//   const { lock, Proxies, LockLost, LockTaken, nodeRedis, ioredis } = require("./lock.js");
//   const urls = ["redis://10.0.0.1:6380", "redis://10.0.0.2:6380"];
//   const proxies = new Proxies(nodeRedis, ...urls); // once in a process; close() at its end
//   await using held = await lock(proxies, "report", { ttl: 10_000, wait: 5_000 });
//   await write(report, held.fence, { signal: held.signal }); // aborted when the lock is lost
"use strict";
class LockTaken extends Error {} // another holds the lock
class LockLost extends Error {} // the lock is not held any more
const sleep = require("node:timers/promises").setTimeout, now = () => performance.now();

function nodeRedis(url) {
  const socket = { reconnectStrategy: false, connectTimeout: 500 };
  const base = (nodeRedis.base ??= require("redis").createClient()); // builds a class in 0.1 s
  const client = base.duplicate({ url, disableOfflineQueue: true, socket });
  const [send, ready] = [(...words) => client.sendCommand(words), () => client.isReady];
  return { client, send, ready, close: () => client.isOpen && client.destroy() };
}
function ioredis(url) {
  const options = { lazyConnect: true, connectTimeout: 500, enableReadyCheck: false };
  const client = new (require("ioredis").Redis)(url, { ...options, retryStrategy: null });
  const [send, ready] = [(...words) => client.call(...words), () => client.status === "ready"];
  return { client, send, ready, close: () => client.disconnect() };
}

class Proxies {
  constructor(make, ...urls) { Object.assign(this, { make, urls, first: 0, idle: [] }); }
  close() { this.idle.flat().forEach((c) => c.close()); }
  // ask sends a command to the proxy in use. After an error the next one is in use.
  async ask(timeout, ...words) {
    const at = this.first;
    this.idle[at] = (this.idle[at] ?? []).filter((c) => c.ready());
    const c = this.idle[at].pop() ?? this.make(this.urls[at]);
    // Without a listener an error would end the process.
    const connected = Promise.resolve(c.ready() || c.client.on("error", () => {}).connect());
    const late = sleep(timeout, null, { ref: false }).then(() => { throw new Error("no reply"); });
    try {
      const reply = await Promise.race([connected.then(() => c.send(...words)), late]);
      this.idle[at].push(c);
      return reply;
    } catch (error) {
      c.close();
      this.first = (at + 1) % this.urls.length;
      throw error;
    }
  }
}

// lock takes the lock of key and renews it until it is disposed of. Without wait it tries once.
async function lock(proxies, key, { ttl = 10_000, wait = 0 } = {}) {
  const end = now() + wait, step = Math.max(1000, Math.min(wait / 3, 10_000));
  let sent, granted = null;
  for (let failed = 0; granted === null; ) { // a proxy that hangs costs a step and a second
    sent = now();
    const left = Math.max(1, Math.trunc(Math.min(step, end - sent))); // WAIT 0 would wait for ever
    try {
      const options = wait ? ["WAIT", String(left)] : [];
      granted = await proxies.ask(step + 1000, "LOCK", key, String(ttl), "FULL", ...options);
      if (granted === null && now() >= end) throw new LockTaken(key);
    } catch (error) {
      const final = error instanceof LockTaken || (++failed >= proxies.urls.length && now() >= end);
      if (final || /^(?!NOQUORUM|TRYAGAIN)[A-Z]{3,} /.test(error.message)) throw error;
      await sleep(50);
    }
  }
  const [token, fence, validity] = granted, abort = new AbortController();
  const extension = [ttl / 4, "EXTEND", key, token, String(ttl), "FULL"];
  let until, ends, renews, ended = false;
  const lose = () => abort.abort(new LockLost(key));
  const hold = (time) => [clearTimeout(ends), (ends = setTimeout(lose, (until = time) - now()))];
  const check = () => { if (now() >= until) throw new LockLost(key); };
  const extend = async () => { // after an error again, until the lock is lost or unlocked
    for (; !ended && now() < until; await sleep(ttl / 20)) {
      const sent = now(), reply = await proxies.ask(...extension).catch(() => null);
      if (reply) return ended || hold(sent + Number(reply[1])); // of a lost lock validity is 0
    }
  };
  const renew = () => extend().then(plan);
  const plan = () => !ended && now() < until && (renews = setTimeout(renew, ttl / 3));
  const dispose = async () => {
    [ends, renews].forEach(clearTimeout);
    ended = true;
    let kept = now() < until;
    for (const again of kept ? [false, true] : []) {
      try { // the first UNLOCK may have done it, though no reply came
        kept = Number(await proxies.ask(500, "UNLOCK", key, token)) === 1 || again;
        break;
      } catch {} // the lock runs out
    }
    if (!kept) throw new LockLost(key);
  };
  hold((wait ? now() : sent) + Number(validity));
  if (wait) await extend(); // the time since sent went into waiting: ask how long it is held
  check();
  plan();
  return { token, fence, signal: abort.signal, check, [Symbol.asyncDispose]: dispose };
}
module.exports = { lock, Proxies, LockTaken, LockLost, nodeRedis, ioredis };
