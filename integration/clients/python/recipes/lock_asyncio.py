"""A lock of lockproxy for asyncio, Python 3.11 and redis-py. Times are milliseconds.

async with lock(r, "report", ttl=10_000, wait=5_000) as fence:
    await write(report, fence)

When the lock is lost the block is cancelled where it awaits, and LockLost is raised behind it.
"""

import asyncio
from contextlib import asynccontextmanager, suppress

import redis


class LockTaken(Exception):
    """Another holds the lock."""


class LockLost(Exception):
    """The lock is not held any more."""


@asynccontextmanager
async def lock(r, key, ttl=10_000, wait=0):
    """Without wait it tries once. The socket_timeout of r is longer than wait, or None."""
    loop, holder = asyncio.get_running_loop(), asyncio.current_task()
    sent = loop.time()
    options = ["WAIT", wait] if wait else []  # WAIT 0 would wait for ever
    granted = await r.execute_command("LOCK", key, ttl, "FULL", *options)
    if granted is None:
        raise LockTaken(key)
    token, fence, validity = granted
    lost, ended, timer = None, loop.create_future(), loop.call_later(0, lambda: None)

    def lose():
        nonlocal lost
        lost = holder.cancelling()  # other reasons to cancel, if there are any
        holder.cancel()

    def hold(until):
        nonlocal timer
        timer.cancel()
        if not ended.done():
            timer = loop.call_at(until, lose)

    async def extend():
        sent = loop.time()
        _, validity = await r.execute_command("EXTEND", key, token, ttl, "FULL")
        hold(sent + validity / 1000)  # of a lost lock validity is 0

    async def renew():
        pause = ttl / 3000
        while not (await asyncio.wait([ended], timeout=pause))[0]:
            try:
                await extend()
                pause = ttl / 3000
            except redis.RedisError:  # no majority for the moment: again, until validity ends
                pause = ttl / 20_000

    kept = None
    try:
        if wait:  # the time since sent went into waiting
            await extend()
        else:
            hold(sent + validity / 1000)
        renewing = asyncio.create_task(renew())
        yield fence
    except asyncio.CancelledError:
        if lost is not None and holder.uncancel() <= lost:
            raise LockLost(key) from None
        raise
    finally:
        timer.cancel()
        ended.set_result(None)  # renewing is not cancelled: its command may be under way
        with suppress(redis.RedisError):  # the release goes on, or the lock runs out
            kept = await r.execute_command("UNLOCK", key, token)
    if lost is not None or kept == 0:
        raise LockLost(key)
