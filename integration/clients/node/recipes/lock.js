// A lock of lockproxy for `await using`, with node-redis or ioredis. Times are milliseconds.
//
//   await using held = await lock(send, "report", { ttl: 10_000, wait: 5_000 });
//   await write(report, held.fence, { signal: held.signal });
//
// send sends a command. A LOCK that waits stalls later commands on its connection, renewals too, so
// take a pool:
//
//   const pool = await createClientPool(options).connect(); // node-redis
//   const send = (...command) => pool.sendCommand(command);
//
// With ioredis give waits a connection of their own:
//
//   const send = (...command) => redis.call(...command);
//   const waiting = redis.duplicate(); // one for each lock that waits
//   await lock(send, "report", { wait: 5_000, waiting: (...command) => waiting.call(...command) });
"use strict";

class LockTaken extends Error {}
class LockLost extends Error {}

class Lock {
  #abort = new AbortController();
  #until;
  #ends; // fires when validity ends
  #renews;

  constructor(send, key, ttl, token, fence) {
    Object.assign(this, { send, key, ttl, token, fence });
    this.signal = this.#abort.signal; // aborted with LockLost when the lock is lost
  }

  hold(until) {
    clearTimeout(this.#ends);
    this.#until = until;
    this.#ends = setTimeout(() => this.#abort.abort(new LockLost(this.key)), until - performance.now());
  }

  async extend() {
    const sent = performance.now();
    const [, validity] = await this.send("EXTEND", this.key, this.token, String(this.ttl), "FULL");
    this.hold(sent + Number(validity)); // of a lost lock validity is 0
  }

  // check throws LockLost if the lock is lost. Call it before each step that cannot be undone.
  check() {
    if (performance.now() >= this.#until) throw new LockLost(this.key);
  }

  renew(pause = this.ttl / 3) {
    this.#renews = setTimeout(async () => {
      const next = await this.extend().then(() => this.ttl / 3, () => this.ttl / 20);
      if (this.#renews === null) clearTimeout(this.#ends);
      else if (performance.now() < this.#until) this.renew(next);
    }, pause);
  }

  async [Symbol.asyncDispose]() {
    clearTimeout(this.#renews);
    clearTimeout(this.#ends);
    this.#renews = null;
    let kept = performance.now() < this.#until;
    try {
      kept = Number(await this.send("UNLOCK", this.key, this.token)) === 1 && kept;
    } catch {
      // The release goes on, or the lock runs out.
    }
    if (!kept) throw new LockLost(this.key);
  }
}

// lock takes the lock of key and renews it until it is disposed of. Without wait it tries once.
async function lock(send, key, { ttl = 10_000, wait = 0, waiting = send } = {}) {
  const sent = performance.now();
  const options = wait ? ["WAIT", String(wait)] : []; // WAIT 0 would wait for ever
  const granted = await (wait ? waiting : send)("LOCK", key, String(ttl), "FULL", ...options);
  if (granted === null) throw new LockTaken(key);
  const [token, fence, validity] = granted;
  const held = new Lock(send, key, ttl, token, fence);
  try {
    if (wait) await held.extend(); // the time since sent went into waiting
    else held.hold(sent + Number(validity));
    held.check();
  } catch (error) {
    await held[Symbol.asyncDispose]().catch(() => {});
    throw error;
  }
  held.renew();
  return held;
}

module.exports = { lock, LockTaken, LockLost };
