// The recipes of docs/recipes.md for Node, with both clients, against a proxy with admin-commands. Usage: recipes.js HOST PORT
"use strict";
const assert = require("node:assert");
const { setTimeout: sleep } = require("node:timers/promises");
const { createClientPool } = require("redis");
const { Redis } = require("ioredis");
const { lock, LockTaken, LockLost } = require("./recipes/lock.js");
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

async function tries(send, waiting) {
  await using(await lock(send, "node", { ttl: 3_000 }), async (first) => {
    await assert.rejects(lock(send, "node"), LockTaken);
    await sleep(3500); // longer than the ttl: it is renewed
    first.check();
    assert(!first.signal.aborted && !(await free("node")));
  });
  assert(await free("node"));

  let second;
  await using(await lock(send, "node"), async (first) => {
    second = lock(send, "node", { wait: 20_000, waiting }).then((held) => using(held, (held) => {
      held.check();
      assert(held.fence > first.fence);
    }));
    while ((await admin.call("LOCKINFO", "node"))[11] !== 1) await sleep(5);
  });
  await second;
  assert(await free("node"));

  await assert.rejects(using(await lock(send, "node", { ttl: 3_000 }), async (held) => {
    await takeAway("node");
    await sleep(30_000, undefined, { signal: held.signal }).catch(() => {});
    assert(held.signal.aborted && held.signal.reason instanceof LockLost);
    held.check();
  }), LockLost);
  await assert.rejects(using(await lock(send, "node"), () => takeAway("node")), LockLost);
  assert(await free("node"));
}

// A client that shows no push must not take it for a reply.
async function pushed(own) {
  const token = await own("LOCK", "pushed", "30s", "SESSION");
  await takeAway("pushed");
  while (Number(await own("EXTEND", "pushed", token, "30s")) !== 0) await sleep(5);
  for (let i = 0; i < 20; i++) assert.strictEqual(await own("ECHO", `echo ${i}`), `echo ${i}`);
}

(async () => {
  const pool = await createClientPool({ socket: { host, port }, RESP: 3 }, { maximum: 10 }).connect();
  const send = (...command) => pool.sendCommand(command);
  await tries(send);
  await pool.execute((own) => pushed((...command) => own.sendCommand(command)));
  console.log("node-redis ok");

  const [redis, waiting] = [new Redis({ host, port, protocol: 3 }), new Redis({ host, port })];
  const call = (...command) => redis.call(...command);
  await tries(call, (...command) => waiting.call(...command));
  await pushed(call);
  console.log("ioredis ok");

  if (Number(process.versions.node.split(".")[0]) >= 24) {
    const body = "await using held = await lock(call, 'using'); return [held.token, await call('LOCK', 'using', '1s')];";
    const [token, taken] = await new (async () => {}).constructor("lock", "call", body)(lock, call);
    assert(token && taken === null && (await free("using")));
    console.log("await using ok");
  }
  await pool.close();
  for (const r of [redis, waiting, admin]) r.disconnect();
  console.log("node", process.version, "all ok");
})().catch((error) => {
  console.error(error);
  process.exit(1);
});
