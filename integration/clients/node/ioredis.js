// ioredis' own ways of working, with lock commands among them. Usage: ioredis.js HOST PORT
"use strict";
const assert = require("node:assert");
const { Redis } = require("ioredis");
const [host, port] = [process.argv[2], Number(process.argv[3])];
const connect = (options) => new Redis({ host, port, ...options });
const tokenForm = /^\d{16}:[0-9a-f]{40}$/;

async function lock(r, key, ...options) {
  return r.call("LOCK", key, "30s", ...options);
}
async function unlock(r, key, token) {
  assert.strictEqual(await r.call("UNLOCK", key, token), 1, `UNLOCK ${key}`);
}

const steps = {
  async single(r) {
    const token = await lock(r, "io");
    assert.match(token, tokenForm);
    assert.strictEqual(await lock(r, "io"), null);
    await unlock(r, "io", token);
    await assert.rejects(r.call("LOCK", "io", "x"), /invalid expire time/);
    const full = await lock(r, "io", "FULL");
    assert(full[2] > 20000);
    await unlock(r, "io", full[0]);
  },

  // Every kind of lock: shared, limited, several keys at once, downgraded to shared, kept closed.
  async kinds(r) {
    const readers = [await lock(r, "io", "SHARED"), await lock(r, "io", "SHARED")];
    assert.strictEqual(await lock(r, "io"), null);
    for (const token of readers) await unlock(r, "io", token);
    const slots = [await lock(r, "io", "LIMIT", "2", "FULL"), await lock(r, "io", "LIMIT", "2", "FULL")];
    assert.deepStrictEqual(slots.map((full) => full[3]).sort(), [0, 1]);
    assert.strictEqual(await lock(r, "io", "LIMIT", "2"), null);
    for (const full of slots) await unlock(r, "io", full[0]);
    const both = await lock(r, "io", "KEYS", "1", "io:other");
    assert.strictEqual(await lock(r, "io:other"), null);
    assert.strictEqual(await r.call("UNLOCK", "io", both, "KEYS", "1", "io:other"), 1);
    const token = await lock(r, "io");
    assert.strictEqual(await r.call("EXTEND", "io", token, "30s", "SHARED"), 1);
    assert.strictEqual(await r.call("UNLOCK", "io", token, "KEEP", "300ms"), 1);
    await unlock(r, "io", await lock(r, "io", "WAIT", "20s"));
    await assert.rejects(lock(r, "io", "SHARED", "LIMIT", "2"), /syntax error/);
  },

  // Many callers share one connection: each must get its own reply.
  async shared(r) {
    const asked = [];
    for (let i = 0; i < 200; i++) {
      asked.push(r.set(`io:${i}`, i), lock(r, `io:${i}`), r.get(`io:${i}`));
    }
    const got = await Promise.all(asked);
    for (let i = 0; i < 200; i++) {
      assert.strictEqual(got[3 * i], "OK");
      assert.match(got[3 * i + 1], tokenForm);
      assert.strictEqual(got[3 * i + 2], String(i));
    }
    await Promise.all(got.filter((_, i) => i % 3 === 1).map((token, i) => unlock(r, `io:${i}`, token)));
  },

  async pipeline(r) {
    const replies = await r.pipeline().set("a", "1").call("LOCK", "piped", "30s").get("a").exec();
    assert.deepStrictEqual([replies[0], replies[2]], [[null, "OK"], [null, "1"]]);
    await unlock(r, "piped", replies[1][1]);
  },

  async transaction(r) {
    assert.deepStrictEqual(await r.multi().set("tx", "1").incr("tx").exec(), [[null, "OK"], [null, 2]]);
    await assert.rejects(r.multi().set("tx", "lost").call("LOCK", "tx", "30s").exec(), /EXECABORT/);
    assert.strictEqual(await r.get("tx"), "2");
    await r.watch("tx");
    await r.set("tx", "3");
    assert.strictEqual(await r.multi().set("tx", "4").exec(), null);
  },

  async pubsub(r) {
    const sub = connect();
    const heard = [];
    const all = new Promise((done) => {
      sub.on("message", (_, text) => heard.push(text) === 20 && done());
    });
    await sub.subscribe("news");
    for (let i = 0; i < 20; i++) {
      const token = await lock(r, "news");
      await r.publish("news", token);
      await unlock(r, "news", token);
    }
    await all;
    heard.forEach((text) => assert.match(text, tokenForm));
    await sub.unsubscribe("news");
    await unlock(sub, "sub", await lock(sub, "sub"));
    sub.disconnect();
  },

  async scripting(r) {
    r.defineCommand("own", { numberOfKeys: 1, lua: "return {KEYS[1], redis.call('INCR', KEYS[1])}" });
    await r.script("FLUSH");
    for (let i = 1; i <= 3; i++) {
      const token = await lock(r, "script");
      assert.deepStrictEqual(await r.own("n"), ["n", i]);
      await unlock(r, "script", token);
    }
  },

  async blocking(r) {
    const other = connect();
    const popped = other.blpop("queue", 10);
    const behind = lock(other, "queue"); // waits on the same connection
    await r.rpush("queue", "x");
    assert.deepStrictEqual(await popped, ["queue", "x"]);
    await unlock(r, "queue", await behind);
    other.disconnect();
  },

  async scan(r) {
    const p = r.pipeline();
    for (let i = 0; i < 1000; i++) p.set(`scanned:${i}`, i);
    await p.exec();
    let found = 0;
    for await (const keys of r.scanStream({ match: "scanned:*", count: 100 })) found += keys.length;
    assert.strictEqual(found, 1000);
  },

  async monitor(r) {
    const m = await r.monitor();
    const seen = new Promise((done) => m.on("monitor", (_, args) => args[0] === "set" && args[1] === "watched" && done()));
    const token = await lock(r, "watched");
    await r.set("watched", 1);
    await seen;
    await unlock(r, "watched", token);
    m.disconnect();
  },

  async reconnect(r) {
    const victim = connect();
    for (let i = 0; i < 5; i++) {
      const token = await lock(victim, "again");
      await r.client("KILL", "ID", await victim.client("ID"));
      // The client may send it again over a new connection. 0: the first one ran, and its reply was lost.
      assert.ok([0, 1].includes(await victim.call("UNLOCK", "again", token)));
      assert.strictEqual(await r.call("LOCKINFO", "again"), null);
    }
    victim.disconnect();
  },

  async contention(r) {
    await r.set("sum", 0);
    await Promise.all(
      Array.from({ length: 10 }, async () => {
        const own = connect(); // a waiting LOCK delays all other commands on its connection
        for (let i = 0; i < 10; i++) {
          const token = await lock(own, "sum", "WAIT", "20s");
          const n = Number(await own.get("sum"));
          await own.set("sum", n + 1);
          await unlock(own, "sum", token);
        }
        await own.quit();
      }),
    );
    assert.strictEqual(await r.get("sum"), "100");
  },
};

(async () => {
  const r = connect();
  for (const [name, step] of Object.entries(steps)) {
    await step(r);
    console.log(name, "ok");
  }
  await r.quit();
  console.log("ioredis", require("ioredis/package.json").version, "all ok");
})().catch((e) => {
  console.error(e);
  process.exit(1);
});
