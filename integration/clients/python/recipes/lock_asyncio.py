"""A lock of lockproxy for asyncio, Python 3.11: save this file as lock_asyncio.py. Milliseconds.

from lock_asyncio import LockLost, LockTaken, Proxies, lock

proxies = Proxies("redis://10.0.0.1:6380", "redis://10.0.0.2:6380")  # once in a process
async with lock(proxies, "report", ttl=10_000, wait=5_000) as fence:
    await write(report, fence)

When the lock is lost the block is cancelled where it awaits, and LockLost is raised behind it.
"""
import asyncio
from contextlib import asynccontextmanager

import redis.asyncio as redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff


class LockTaken(Exception): ...  # another holds the lock
class LockLost(Exception): ...  # the lock is not held any more


class Proxies:
    def __init__(self, *urls):
        self.urls, self.first, self.clients = urls, 0, {}

    async def ask(self, timeout, *command):
        """Sends a command to the proxy in use. After an error the next one is in use."""
        at, options = self.first, {"socket_timeout": timeout, "socket_connect_timeout": 0.5}
        if (at, timeout) not in self.clients:
            r = redis.Redis.from_url(self.urls[at], retry=Retry(NoBackoff(), 0), **options)
            self.clients[at, timeout] = r
        try:  # a task, because old redis-py leaves a task that timed out half cancelled
            return await asyncio.create_task(self.clients[at, timeout].execute_command(*command))
        except redis.RedisError:
            self.first = (at + 1) % len(self.urls)
            raise


@asynccontextmanager
async def lock(proxies, key, ttl=10_000, wait=0):
    """Without wait it tries once."""
    now, ended = asyncio.get_running_loop().time, asyncio.get_running_loop().create_future()
    end, failed, granted = now() + wait / 1000, 0, None
    step = max(1, min(wait / 3000, 10))  # a proxy that hangs costs a step and a second
    while not granted:
        sent = now()
        left = max(1, int(min(step, end - sent) * 1000))  # WAIT 0 would wait for ever
        try:
            command = ["LOCK", key, ttl, "FULL"] + (["WAIT", left] if wait else [])
            granted = await proxies.ask(step + 1, *command)
            if not granted and now() >= end:
                raise LockTaken(key)
        except redis.RedisError as error:
            failed += 1
            final = failed >= len(proxies.urls) and now() >= end
            passing = str(error)[:8] in ("NOQUORUM", "TRYAGAIN")
            if final or isinstance(error, redis.ResponseError) and not passing:
                raise
            await asyncio.sleep(0.05)
    token, fence, validity = granted
    until = asyncio.timeout_at((now() if wait else sent) + validity / 1000)

    async def extend():
        while (sent := now()) < until.when() and not ended.done():
            try:
                reply = await proxies.ask(ttl / 4000, "EXTEND", key, token, ttl, "FULL")
                if not ended.done() and not until.expired():
                    until.reschedule(sent + reply[1] / 1000)  # of a lost lock validity is 0
                return
            except redis.RedisError:
                await asyncio.wait([ended], timeout=ttl / 20_000)

    async def renew():
        while not (await asyncio.wait([ended], timeout=ttl / 3000))[0] and now() < until.when():
            await extend()

    try:
        async with until:
            if wait:  # the time since sent went into waiting: ask how long it is held
                await extend()
            renewing = asyncio.create_task(renew())
            if now() < until.when():
                yield fence
    except TimeoutError:
        if not until.expired():
            raise
    finally:
        ended.set_result(None)  # renewing is not cancelled: its command may be under way
        kept = now() < until.when()
        for again in (False, True) if kept else ():
            try:  # the first UNLOCK may have done it, though no reply came
                kept = await proxies.ask(0.5, "UNLOCK", key, token) == 1 or again
                break
            except redis.RedisError: pass  # the lock runs out
    if not kept:
        raise LockLost(key)
