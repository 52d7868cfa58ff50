"""What docs/recipes.md shows for redis-py, against a proxy with admin-commands. Usage: recipes.py HOST PORT"""

import asyncio
import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).with_name("recipes")))

import redis
import redis.asyncio

import fence
import leader
import lock_asyncio
import payment
import redis_py_lock
import stock
from lock import Lock, LockLost, LockTaken

HOST, PORT = sys.argv[1], int(sys.argv[2])


def connect(**options):
    return redis.Redis(host=HOST, port=PORT, **options)


r, admin = connect(), connect()


def take_away(key):
    assert admin.execute_command("LOCKPROXY", "RELEASE", key) == 1, key


def info(key, field):
    """Returns a field of LOCKINFO, which is a map in RESP3."""
    reply = admin.execute_command("LOCKINFO", key)
    pairs = reply.items() if isinstance(reply, dict) else zip(reply[::2], reply[1::2])
    return {name.decode(): value for name, value in pairs}[field]


def free(key):
    return admin.execute_command("LOCKINFO", key) is None


def until(what, true):
    end = time.monotonic() + 30
    while not true():
        assert time.monotonic() < end, what
        time.sleep(0.005)


@contextlib.contextmanager
def raises(kind):
    try:
        yield
    except kind:
        return
    raise AssertionError(f"no {kind.__name__}")


def with_lock():
    with Lock(r, "with", ttl=3_000) as first:
        assert not free("with")
        with raises(LockTaken), Lock(r, "with"):
            raise AssertionError("two hold the lock")
        time.sleep(3.5)  # longer than the ttl: it is renewed
        first.check()
        assert not free("with")
    fences = []

    def later():
        with Lock(connect(), "with", wait=20_000) as second:
            second.check()
            fences.append(second.fence)

    with Lock(r, "with") as first:
        waits = threading.Thread(target=later)
        waits.start()
        until("nobody waits", lambda: info("with", "waiting") == 1)
    waits.join()
    assert free("with") and fences[0] > first.fence, fences
    with raises(ZeroDivisionError), Lock(r, "with"):
        1 / 0
    assert free("with")


def with_lock_lost():
    with raises(LockLost), Lock(r, "lost", ttl=3_000) as lock:
        take_away("lost")
        until("held for ever", lambda: not lock.held())
        lock.check()
    with raises(LockLost), Lock(r, "lost"):
        take_away("lost")  # known at the end at the latest
    assert free("lost")


def with_asyncio():
    async def run():
        async with redis.asyncio.Redis(host=HOST, port=PORT) as r:
            async with lock_asyncio.lock(r, "aio", ttl=3_000) as fence:
                with raises(lock_asyncio.LockTaken):
                    async with lock_asyncio.lock(r, "aio"):
                        raise AssertionError("two hold the lock")
                await asyncio.sleep(3.5)
                assert not free("aio")

            async def later():
                async with lock_asyncio.lock(r, "aio", wait=20_000) as second:
                    return second

            async with lock_asyncio.lock(r, "aio"):
                waits = asyncio.create_task(later())
                while not info("aio", "waiting"):
                    await asyncio.sleep(0.005)
            assert await waits > fence and free("aio")

            reached = False
            with raises(lock_asyncio.LockLost):
                async with lock_asyncio.lock(r, "aio", ttl=3_000):
                    take_away("aio")
                    reached = True
                    await asyncio.sleep(30)
                    raise AssertionError("the block was not cancelled")
            assert reached
            with raises(lock_asyncio.LockLost):
                async with lock_asyncio.lock(r, "aio"):
                    take_away("aio")
            with raises(TimeoutError):  # one of the block's own stays what it is
                async with lock_asyncio.lock(r, "aio"):
                    raise TimeoutError
            assert free("aio")

    asyncio.run(run())


def leads():
    """The leader is killed: the next one leads long before the ttl. It is deposed, and stops."""
    led, stop = [], threading.Event()
    process = subprocess.Popen([sys.executable, __file__, HOST, str(PORT), "lead"], stdout=subprocess.PIPE)
    first = int(process.stdout.readline())
    own = connect(single_connection_client=True)
    next_one = threading.Thread(target=leader.lead, args=(own, "leader", 60_000, led.append, stop))
    next_one.start()
    until("nobody waits", lambda: info("leader", "waiting") == 1)
    assert not led, "two lead"
    start = time.monotonic()
    process.kill()
    process.wait()
    until("nobody leads", lambda: led)
    assert time.monotonic() - start < 30 and led[0] > first, (led[0], first)
    take_away("leader")
    until("deposed for ever", lambda: led[-1] > led[0])
    stop.set()
    next_one.join(30)
    assert not next_one.is_alive() and free("leader")


def sells():
    r.hset("stock:book", "left", 20)
    sold = []

    def shop():
        own = connect()
        while (left := stock.sell(own, "book", 1)) is not None:
            sold.append(left)

    shops = [threading.Thread(target=shop) for _ in range(8)]
    for s in shops:
        s.start()
    for s in shops:
        s.join()
    assert sorted(sold) == list(range(20)) and r.hget("stock:book", "left") == b"0", sold

    def late(left):  # while it checks, its lock goes to another, who sells
        if left == 2:
            take_away("stock:pen")
            assert stock.sell(connect(), "pen", 1) == 2

    r.hset("stock:pen", "left", 3)
    with raises(LockLost):
        stock.sell(r, "pen", 1, late)
    assert r.hget("stock:pen", "left") == b"2"


def fences():
    db = sqlite3.connect(":memory:")
    db.execute(fence.CREATE)
    db.execute("CREATE TABLE note (text text)")
    add = "INSERT INTO note VALUES (?)"
    fence.write(db, "note", 7, add, ["a"])
    fence.write(db, "note", 7, add, ["the same holder"])
    fence.write(db, "note", 9, add, ["b"])
    fence.write(db, "other", 8, add, ["c"])
    with raises(fence.LateHolder):
        fence.write(db, "note", 8, add, ["late"])
    with raises(sqlite3.OperationalError):  # the fence counts only with what was written
        fence.write(db, "note", 10, "INSERT INTO nowhere VALUES (?)", ["d"])
    fence.write(db, "note", 9, add, ["e"])
    written = [text for text, in db.execute("SELECT text FROM note")]
    assert written == ["a", "the same holder", "b", "c", "e"], written


def pays():
    db = sqlite3.connect(":memory:", check_same_thread=False)
    db.execute(payment.CREATE)
    asked, charged, paid = [], {}, []

    def charge(amount, idempotency_key):
        asked.append(idempotency_key)
        return charged.setdefault(idempotency_key, f"reference {len(charged)} for {amount}")

    def order():
        paid.append(payment.pay(connect(), db, charge, "4711", 25))

    orders = [threading.Thread(target=order) for _ in range(8)]
    for o in orders:
        o.start()
    for o in orders:
        o.join()
    assert paid == ["reference 0 for 25"] * 8 and asked == ["order-4711"], (paid, asked)
    db.execute("DELETE FROM payment")  # as if the process had ended before it wrote
    order()
    assert paid[-1] == paid[0] and len(charged) == 1, (paid, charged)


def as_redis_py():
    def lock(**options):
        return connect().lock("same", lock_class=redis_py_lock.Lock, **{"timeout": 20, **options})

    def left():
        return info("same", "ttl")

    held = lock(thread_local=False)
    assert held.acquire() is True and held.locked() and held.owned()
    other = lock()
    start = time.monotonic()
    assert other.acquire(blocking=False) is False
    assert other.acquire(blocking_timeout=0) is False  # once, and not for ever
    assert time.monotonic() - start < 10 and not other.owned()
    start = time.monotonic()
    assert lock(blocking_timeout=0.3).acquire() is False
    assert time.monotonic() - start >= 0.3
    assert held.extend(10) and 25_000 < left() <= 30_000, left()  # adds
    assert held.extend(40, replace_ttl=True) and 35_000 < left() <= 40_000, left()
    assert held.extend(5) and 40_000 < left() <= 45_000, left()
    waits = threading.Timer(0.2, held.release)
    waits.start()
    with other:
        assert other.owned() and not held.owned()
        with raises(redis.exceptions.LockError):
            held.release()
    assert not other.locked()
    with raises(redis.exceptions.LockError), lock(blocking=False) as first, lock(blocking=False):
        raise AssertionError("two hold the lock")
    assert not first.locked()
    assert held.acquire()
    take_away("same")
    assert not held.owned()
    for lost in held.reacquire, lambda: held.extend(1), held.release:
        with raises(redis.exceptions.LockNotOwnedError):
            lost()
    with raises(redis.exceptions.LockError):
        lock(timeout=None).acquire()


if sys.argv[3:] == ["lead"]:
    led = []
    leader.lead(connect(single_connection_client=True), "leader", 60_000, lambda fence: led or led.append(print(fence, flush=True)), threading.Event())

for step in (with_lock, with_lock_lost, with_asyncio, leads, sells, fences, pays, as_redis_py):
    step()
    print(step.__name__, "ok")
print("redis-py", redis.__version__, "all ok")
