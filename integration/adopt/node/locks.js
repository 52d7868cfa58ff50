// Lock libraries for Node, unchanged from npm. The protocol is in ../program_test.go.
"use strict";
const readline = require("node:readline");
const { Redis: Redis6 } = require("ioredis");
const { Redis: Redis5 } = require("ioredis5");
const Redlock4 = require("redlock");
const redlock5 = require("redlock5");
const sesamecare = require("@sesamecare-oss/redlock");
const { Mutex } = require("redis-semaphore");
const ioredisLock = require("ioredis-lock");
const verrou = import("@verrou/core");
const verrouRedis = import("@verrou/core/drivers/redis");

const pause = 20; // ms between two tries
const tries = (wait) => Math.ceil(wait / pause);

// caught returns whether an error is the library's way to say no; other errors are thrown.
async function caught(says, promise) {
  try {
    const got = await promise;
    return got !== false;
  } catch (error) {
    if (await says(error)) return false;
    throw error;
  }
}

// Each library makes a client for a connection. A client has acquire(key, ttl, wait), which returns
// null or a lock with release(), and extend(ttl) if the library has it; times are in ms.
const libraries = {
  // Version 4 has one error for all cases; the event clientError has the server's.
  "redlock 4": (redis) => {
    let failed = null;
    const redlock = new Redlock4([redis], { retryDelay: pause, retryJitter: 5 });
    redlock.on("clientError", (error) => { failed = error; });
    const ask = (promise) => {
      failed = null;
      return caught((error) => {
        if (failed) throw failed;
        return error instanceof Redlock4.LockError;
      }, promise);
    };
    return {
      async acquire(key, ttl, wait) {
        redlock.retryCount = tries(wait);
        let lock;
        if (!(await ask(redlock.lock(key, ttl).then((l) => { lock = l; })))) return null;
        return { release: () => ask(lock.unlock()), extend: (more) => ask(lock.extend(more)) };
      },
    };
  },

  "redlock 5": (redis) => newRedlock(new redlock5.default([redis]), redlock5),
  sesamecare: (redis) => newRedlock(new sesamecare.Redlock([redis]), sesamecare),

  "redis-semaphore": (redis) => ({
    async acquire(key, ttl, wait) {
      const options = { lockTimeout: ttl, refreshInterval: 0, retryInterval: pause };
      options[wait ? "acquireTimeout" : "acquireAttemptsLimit"] = wait || 1;
      const mutex = new Mutex(redis, key, options);
      if (!(await mutex.tryAcquire())) return null;
      const { identifier } = mutex;
      return {
        release: async () => { await mutex.release(); return true; },
        extend: (more) =>
          new Mutex(redis, key, { identifier, acquiredExternally: true, lockTimeout: more, refreshInterval: 0 }).tryAcquire(),
      };
    },
  }),

  // This library renews the lock by itself, every 0.8 of its ttl.
  "redis-semaphore, renewed": (redis) => ({
    async acquire(key, ttl, wait) {
      const options = { lockTimeout: ttl, retryInterval: pause };
      options[wait ? "acquireTimeout" : "acquireAttemptsLimit"] = wait || 1;
      const mutex = new Mutex(redis, key, options);
      if (!(await mutex.tryAcquire())) return null;
      return { release: async () => { await mutex.release(); return true; } };
    },
  }),

  verrou: async (redis) => {
    const { Verrou } = await verrou;
    const { redisStore } = await verrouRedis;
    const made = new Verrou({ default: "redis", stores: { redis: { driver: redisStore({ connection: redis }) } } });
    const says = (error) => error.code === "E_LOCK_NOT_OWNED";
    return {
      async acquire(key, ttl, wait) {
        const lock = made.createLock(key, ttl);
        const got = wait ? await lock.acquire({ retry: { attempts: tries(wait), delay: pause } }) : await lock.acquireImmediately();
        if (!got) return null;
        return {
          release: () => caught(says, lock.release()),
          extend: (more) => caught(says, lock.extend(more)),
          held: () => lock.isLocked(),
          force: async () => { await lock.forceRelease(); return true; },
        };
      },
    };
  },

  "ioredis-lock": (redis) => ({
    async acquire(key, ttl, wait) {
      const lock = ioredisLock.createLock(redis, { timeout: ttl, retries: tries(wait), delay: pause });
      const says = (error) => / had expired$|^Could not acquire lock|^Lock has not been acquired/.test(error.message);
      if (!(await caught(says, lock.acquire(key)))) return null;
      return { release: () => caught(says, lock.release()), extend: (more) => caught(says, lock.extend(more)) };
    },
  }),
};

// newRedlock is for version 5 and its successor: the error has the vote of each server.
function newRedlock(redlock, { ResourceLockedError, ExecutionError }) {
  redlock.on("error", () => {}); // a vote against; the ExecutionError has it, too
  const says = async (error) => {
    if (!(error instanceof ExecutionError)) return false;
    for (const attempt of error.attempts) {
      for (const vote of (await attempt).votesAgainst.values()) {
        if (!(vote instanceof ResourceLockedError)) throw vote;
      }
    }
    return true;
  };
  const once = { retryCount: 0 };
  return {
    async acquire(key, ttl, wait) {
      let lock;
      const asked = redlock.acquire([key], ttl, { retryCount: tries(wait), retryDelay: pause, retryJitter: 5 });
      if (!(await caught(says, asked.then((l) => { lock = l; })))) return null;
      return {
        release: () => caught(says, redlock.release(lock, once)),
        extend: (more) => caught(says, redlock.extend(lock, more, once).then((l) => { lock = l; })),
      };
    },
  };
}

const old = ["redlock 4", "verrou", "ioredis-lock"]; // with ioredis 5

const clients = new Map();
async function run({ who, op, library, addr, password, key, ttl, wait }) {
  if (op === "connect") {
    const [host, port] = addr.split(":");
    const redis = new (old.includes(library) ? Redis5 : Redis6)({ host, port: Number(port), password });
    redis.on("error", () => {}); // it reconnects by itself
    clients.set(who, { redis, ...(await libraries[library](redis)) });
    return true;
  }
  const client = clients.get(who);
  switch (op) {
    case "close":
      client.redis.disconnect();
      return true;
    case "acquire": {
      const lock = await client.acquire(key, ttl, wait);
      if (lock) client.lock = lock;
      return lock !== null;
    }
    case "add": // loses a count if another client is between the two commands
      await client.redis.set(key, Number(await client.redis.get(key)) + 1);
      return true;
    default:
      return client.lock[op](ttl);
  }
}

readline.createInterface({ input: process.stdin }).on("line", async (line) => {
  const request = JSON.parse(line);
  const answer = { id: request.id };
  try {
    answer.yes = await run(request);
  } catch (error) {
    answer.error = String(error && error.message);
  }
  process.stdout.write(JSON.stringify(answer) + "\n");
}).on("close", () => process.exit(0));
