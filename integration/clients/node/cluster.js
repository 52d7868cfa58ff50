// ioredis' cluster client with proxies in front of the nodes. Usage: cluster.js HOST PORT
"use strict";
const assert = require("node:assert");
const { Cluster } = require("ioredis");
const [host, port] = [process.argv[2], Number(process.argv[3])];
const tokenForm = /^\d{16}:[0-9a-f]{40}$/;

(async () => {
  const c = new Cluster([{ host, port }]);
  for (let i = 0; i < 100; i++) {
    const key = `key-${i}`;
    const token = await c.call("LOCK", key, "30s");
    assert.match(token, tokenForm);
    await c.set(key, token);
    assert.strictEqual(await c.call("LOCK", key, "30s"), null);
    assert.strictEqual(await c.get(key), token);
    assert.strictEqual(await c.call("UNLOCK", key, token), 1);
  }
  const shared = await Promise.all(Array.from({ length: 100 }, (_, i) => [c.get(`key-${i}`), c.call("LOCK", `shared-${i}`, "30s")]).flat());
  for (let i = 0; i < 100; i++) {
    assert.match(shared[2 * i], tokenForm);
    assert.strictEqual(await c.call("UNLOCK", `shared-${i}`, shared[2 * i + 1]), 1);
  }
  console.log("nodes", c.nodes("master").map((n) => n.options.port).join(" "));
  await c.quit();
  console.log("ioredis cluster all ok");
})().catch((e) => {
  console.error(e);
  process.exit(1);
});
