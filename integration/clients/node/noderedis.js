// node-redis' own ways of working, RESP2 and RESP3, with lock commands among them. Usage: noderedis.js HOST PORT
"use strict";
const assert = require("node:assert");
const { createClient, createClientPool } = require("redis");
const [host, port] = [process.argv[2], Number(process.argv[3])];
const tokenForm = /^\d{16}:[0-9a-f]{40}$/;

const lock = (r, key, ...options) => r.sendCommand(["LOCK", key, "30s", ...options]);
async function unlock(r, key, token) {
  assert.strictEqual(await r.sendCommand(["UNLOCK", key, token]), 1, `UNLOCK ${key}`);
}
async function connect(options) {
  const r = createClient({ socket: { host, port }, ...options });
  r.on("error", () => {}); // it reconnects after a kill
  return r.connect();
}

const steps = {
  async single(r) {
    const token = await lock(r, "nr");
    assert.match(token, tokenForm);
    assert.strictEqual(await lock(r, "nr"), null);
    await unlock(r, "nr", token);
    await assert.rejects(r.sendCommand(["LOCK", "nr", "x"]), /invalid expire time/);
  },

  // Every kind of lock: shared, limited, several keys at once, downgraded to shared, kept closed.
  async kinds(r) {
    const readers = [await lock(r, "nr", "SHARED"), await lock(r, "nr", "SHARED")];
    assert.strictEqual(await lock(r, "nr"), null);
    for (const token of readers) await unlock(r, "nr", token);
    const slots = [await lock(r, "nr", "LIMIT", "2", "FULL"), await lock(r, "nr", "LIMIT", "2", "FULL")];
    assert.deepStrictEqual(slots.map((full) => full[3]).sort(), [0, 1]);
    assert.strictEqual(await lock(r, "nr", "LIMIT", "2"), null);
    for (const full of slots) await unlock(r, "nr", full[0]);
    const both = await lock(r, "nr", "KEYS", "1", "nr:other");
    assert.strictEqual(await lock(r, "nr:other"), null);
    assert.strictEqual(await r.sendCommand(["UNLOCK", "nr", both, "KEYS", "1", "nr:other"]), 1);
    const token = await lock(r, "nr");
    assert.strictEqual(await r.sendCommand(["EXTEND", "nr", token, "30s", "SHARED"]), 1);
    assert.strictEqual(await r.sendCommand(["UNLOCK", "nr", token, "KEEP", "300ms"]), 1);
    await unlock(r, "nr", await lock(r, "nr", "WAIT", "20s"));
    await assert.rejects(lock(r, "nr", "SHARED", "LIMIT", "2"), /syntax error/);
  },

  async shared(r) {
    const got = await Promise.all(
      Array.from({ length: 200 }, (_, i) => [r.set(`nr:${i}`, i), lock(r, `nr:${i}`), r.get(`nr:${i}`)]).flat(),
    );
    for (let i = 0; i < 200; i++) {
      assert.match(got[3 * i + 1], tokenForm);
      assert.strictEqual(got[3 * i + 2], String(i));
      await unlock(r, `nr:${i}`, got[3 * i + 1]);
    }
  },

  async transaction(r) {
    assert.deepStrictEqual(await r.multi().set("tx", "1").incr("tx").exec(), ["OK", 2]);
    await assert.rejects(r.multi().set("tx", "lost").addCommand(["LOCK", "tx", "30s"]).exec());
    assert.strictEqual(await r.get("tx"), "2");
  },

  async pubsub(r, options) {
    const sub = await connect(options);
    const heard = [];
    let done;
    const all = new Promise((resolve) => (done = resolve));
    await sub.subscribe("news", (text) => heard.push(text) === 20 && done());
    for (let i = 0; i < 20; i++) {
      const token = await lock(r, "news");
      await r.publish("news", token);
      await unlock(r, "news", token);
    }
    await all;
    heard.forEach((text) => assert.match(text, tokenForm));
    if (options.RESP === 3) {
      await unlock(sub, "sub", await lock(sub, "sub")); // a subscribed RESP3 connection may do all
    }
    await sub.unsubscribe("news");
    await unlock(sub, "sub", await lock(sub, "sub"));
    sub.destroy();
  },

  async scripting(r) {
    for (let i = 1; i <= 3; i++) {
      const token = await lock(r, "script");
      const reply = await r.eval("return {KEYS[1], redis.call('INCR', KEYS[1])}", { keys: ["n"] });
      assert.strictEqual(reply[0], "n");
      await unlock(r, "script", token);
    }
  },

  async scan(r) {
    await Promise.all(Array.from({ length: 500 }, (_, i) => r.set(`scanned:${i}`, i)));
    let found = 0;
    for await (const keys of r.scanIterator({ MATCH: "scanned:*", COUNT: 100 })) found += keys.length;
    assert.strictEqual(found, 500);
  },

  async reconnect(r, options) {
    const victim = await connect(options);
    const token = await lock(victim, "again");
    await r.sendCommand(["CLIENT", "KILL", "ID", String(await victim.clientId())]);
    let n = null; // 0: a try ran, and its reply was lost
    for (let tries = 0; n === null && tries < 50; tries++) {
      n = await victim.sendCommand(["UNLOCK", "again", token]).catch(() => null);
    }
    assert.ok([0, 1].includes(n));
    assert.strictEqual(await r.sendCommand(["LOCKINFO", "again"]), null);
    victim.destroy();
  },

  async pool(r, options) {
    const pool = await createClientPool({ socket: { host, port }, ...options }, { maximum: 10, acquireTimeout: 25_000 }).connect();
    await r.set("sum", 0);
    await Promise.all(
      Array.from({ length: 50 }, () =>
        pool.execute(async (own) => {
          const token = await lock(own, "sum", "WAIT", "20s");
          const n = Number(await own.get("sum"));
          await own.set("sum", n + 1);
          await unlock(own, "sum", token);
        }),
      ),
    );
    assert.strictEqual(await r.get("sum"), "50");
    await pool.close();
  },
};

(async () => {
  for (const RESP of [2, 3]) {
    const options = { RESP };
    const r = await connect(options);
    for (const [name, step] of Object.entries(steps)) {
      await step(r, options);
      console.log(`RESP${RESP}`, name, "ok");
    }
    await r.close();
  }
  console.log("node-redis", require("redis/package.json").version, "all ok");
})().catch((e) => {
  console.error(e);
  process.exit(1);
});
