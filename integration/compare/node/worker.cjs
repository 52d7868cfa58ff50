// Locks with node-redlock, or RedlockSemaphore, for the comparison: node worker.cjs redlock|redlock5|redis-semaphore host:port ...
//
// Reads commands from stdin, a line of JSON each, and answers each with a line when it is done, in any order:
//   {"id": 1, "who": 0, "op": "lock", "key": "lock:k", "ttl": 5000}  ->  {"id": 1, "until": unix ms}
//   {"id": 2, "who": 0, "op": "unlock", "grant": 1}                  ->  {"id": 2}
// A semaphore's lock has a "limit" as well, and is told without "until".
// with "error" where it failed. who is 0 or 1: two clients that share nothing. The first line says what runs; without
// addresses that is all.
'use strict';
const fs = require('node:fs');
const path = require('node:path');
const readline = require('node:readline');
const Redis = require('ioredis');

const [name, ...addrs] = process.argv.slice(2);
const library = require(name);
const Redlock = library.default ?? library;

// The options are those of the README, which are the defaults but for the jitter; the Redis clients have none.
const options = { driftFactor: 0.01, retryCount: 10, retryDelay: 200, retryJitter: 200 };

function makeClient() {
  const servers = addrs.map((addr) => {
    const [host, port] = addr.split(':');
    // A semaphore's server that is away fails at once, or each try would take ten seconds.
    return new Redis({ host, port: Number(port), enableOfflineQueue: !library.RedlockSemaphore });
  });
  servers.forEach((server) => server.on('error', () => {})); // it reconnects by itself
  if (library.RedlockSemaphore) {
    return makeSemaphores(servers);
  }
  const redlock = new Redlock(servers, options);
  redlock.on('error', () => {}); // version 5: the vote of one server
  redlock.on('clientError', () => {}); // version 4
  return redlock;
}

// Its README's options are the defaults; lockTimeout is the ttl.
function makeSemaphores(servers) {
  return {
    async acquire([key], ttl, limit) {
      const semaphore = new library.RedlockSemaphore(servers, key, limit, { lockTimeout: ttl, onLockLost: () => {} });
      await semaphore.acquire();
      return semaphore;
    },
    release: (semaphore) => semaphore.release(),
  };
}

const clients = addrs.length > 0 ? [makeClient(), makeClient()] : [];
const grants = new Map();

async function run({ id, who, op, key, ttl, limit, grant }) {
  if (op === 'unlock') {
    await clients[who].release(grants.get(grant));
    return { id };
  }
  const lock = await clients[who].acquire([key], ttl, limit);
  grants.set(id, lock);
  return { id, until: lock.expiration };
}

function say(line) {
  process.stdout.write(JSON.stringify(line) + '\n');
}

function versionOf(dependency) {
  const file = path.join(__dirname, 'node_modules', dependency, 'package.json');
  return JSON.parse(fs.readFileSync(file, 'utf8')).version;
}

const lines = readline.createInterface({ input: process.stdin });
lines.on('line', (line) => {
  const command = JSON.parse(line);
  run(command).then(say, (err) => say({ id: command.id, error: String(err.message ?? err) }));
});
lines.on('close', () => process.exit(0));
say({ id: 0, version: `${versionOf(name)}, ioredis ${versionOf('ioredis')}, Node ${process.version}` });
