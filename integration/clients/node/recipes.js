// The recipes of docs/recipes.md for Node, with both clients, against a proxy with admin-commands. Usage: recipes.js HOST PORT
"use strict";
const assert = require("node:assert");
const { setTimeout: sleep } = require("node:timers/promises");
const { createClient } = require("redis");
const { Redis } = require("ioredis");
const { lock, Proxies, LockTaken, LockLost, nodeRedis, ioredis } = require("./recipes/lock.js");
const [host, port] = [process.argv[2], Number(process.argv[3])];
const admin = new Redis({ host, port });

const free = async (key) => (await admin.call("LOCKINFO", key)) === null;
const takeAway = async (key) => assert.strictEqual(await admin.call("LOCKPROXY", "RELEASE", key), 1);

// using is `await using` for Node before 24, which lacks it.
async function using(held, work) {
  let failed;
  try {
    await work(held);
  } catch (error) {
    failed = error;
  }
  await held[Symbol.asyncDispose]().catch((error) => (failed ??= error));
  if (failed) throw failed;
}

async function tries(proxies) {
  await using(await lock(proxies, "node", { ttl: 3_000 }), async (first) => {
    await assert.rejects(lock(proxies, "node"), LockTaken);
    await sleep(3500); // longer than the ttl: it is renewed
    first.check();
    assert(!first.signal.aborted && !(await free("node")));
  });
  assert(await free("node"));

  let second;
  await using(await lock(proxies, "node"), async (first) => {
    second = lock(proxies, "node", { wait: 20_000 }).then((held) => using(held, (held) => {
      held.check();
      assert(held.fence > first.fence);
    }));
    while ((await admin.call("LOCKINFO", "node"))[11] !== 1) await sleep(5);
  });
  await second;
  assert(await free("node"));

  await assert.rejects(using(await lock(proxies, "node", { ttl: 3_000 }), async (held) => {
    await takeAway("node");
    await sleep(30_000, undefined, { signal: held.signal }).catch(() => {});
    assert(held.signal.aborted && held.signal.reason instanceof LockLost);
    held.check();
  }), LockLost);
  await assert.rejects(using(await lock(proxies, "node"), () => takeAway("node")), LockLost);
  assert(await free("node"));
}

// A client that shows no push must not take it for a reply.
async function pushed(own) {
  const token = await own("LOCK", "pushed", "30s", "SESSION");
  await takeAway("pushed");
  while (Number(await own("EXTEND", "pushed", token, "30s")) !== 0) await sleep(5);
  for (let i = 0; i < 20; i++) assert.strictEqual(await own("ECHO", `echo ${i}`), `echo ${i}`);
}

// node-redis builds a class of all commands for each URL, which stops the program for 0.1 s of
// processor time. All clients of the recipe share one class, so a change of the proxy is cheap.
function sharesClass() {
  const [a, b] = ["a", "b"].map((name) => nodeRedis(`redis://${name}:6380`).client);
  assert.strictEqual(a.constructor, b.constructor);
}

(async () => {
  sharesClass();
  const client = await createClient({ socket: { host, port }, RESP: 3 }).connect();
  await pushed((...command) => client.sendCommand(command));
  const redis = new Redis({ host, port, protocol: 3 });
  await pushed((...command) => redis.call(...command));
  let proxies;
  for (const make of [ioredis, nodeRedis]) {
    proxies?.close();
    proxies = new Proxies(make, `redis://${host}:${port}`);
    await tries(proxies);
    console.log(make.name, "ok");
  }

  if (Number(process.versions.node.split(".")[0]) >= 24) {
    const body = "await using held = await lock(proxies, 'using'); return [held.token, await proxies.ask(9_000, 'LOCK', 'using', '1s')];";
    const [token, taken] = await new (async () => {}).constructor("lock", "proxies", body)(lock, proxies);
    assert(token && taken === null && (await free("using")));
    console.log("await using ok");
  }
  proxies.close();
  client.destroy();
  for (const r of [redis, admin]) r.disconnect();
  console.log("node", process.version, "all ok");
})().catch((error) => {
  console.error(error);
  process.exit(1);
});
