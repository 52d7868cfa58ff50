// lock.js while proxies and masters die. Usage: survive.js count|hold ioredis|nodeRedis FOLDER ADDRESS...
//
// count adds 1 to the file counter under a lock until there is a file stop, and writes how often it
// did so. hold keeps a lock until it is lost. The test reads the files and the last line.
"use strict";
const assert = require("node:assert");
const fs = require("node:fs");
const path = require("node:path");
const { setTimeout: sleep } = require("node:timers/promises");
const recipe = require("./recipes/lock.js");
const { lock, Proxies, LockTaken, LockLost } = recipe;
const [role, name, folder, ...addresses] = process.argv.slice(2);
const proxies = new Proxies(recipe[name], ...addresses.map((address) => `redis://${address}`));
const file = (name) => path.join(folder, name);

// under runs work under a lock, like `await using`, which Node lacks before 24.
async function under(key, options, work) {
  const held = await lock(proxies, key, options);
  try {
    await work(held);
  } finally {
    await held[Symbol.asyncDispose]();
  }
}

async function count() {
  for (let done = 0; !fs.existsSync(file("stop")); await sleep(20)) {
    try {
      await under("counter", { ttl: 2_000, wait: 15_000 }, async (held) => {
        const n = Number(fs.readFileSync(file("counter"), "utf8"));
        await sleep(5);
        held.check();
        fs.writeFileSync(file("counter"), String(n + 1));
        fs.writeFileSync(file(`done.${name}`), String(++done));
      });
    } catch (error) {
      if (!(error instanceof LockTaken || error instanceof LockLost)) throw error;
      console.log(error.constructor.name, error.message);
    }
  }
}

async function hold() {
  await under(`hold:${name}`, { ttl: 20_000, wait: 5_000 }, async (held) => {
    fs.writeFileSync(file(`held.${name}`), String(held.fence));
    await sleep(600_000, null, { signal: held.signal }).catch(() => {});
    assert(held.signal.reason instanceof LockLost);
  }).catch((error) => assert(error instanceof LockLost && error.message.includes(`hold:${name}`), error));
}

({ count, hold })[role]().then(() => {
  proxies.close();
  console.log("all ok");
});
