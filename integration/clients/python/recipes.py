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

import fence
import leader
import lock_asyncio
import payment
import redis_py_lock
import stock
from lock import Lock, LockLost, LockTaken, Proxies

HOST, PORT = sys.argv[1], int(sys.argv[2])


def connect(**options):
    return redis.Redis(host=HOST, port=PORT, **options)


r, admin = connect(), connect()
URL = f"redis://{HOST}:{PORT}"
proxies = Proxies(URL)


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
    with Lock(proxies, "with", ttl=3_000) as first:
        assert not free("with")
        with raises(LockTaken), Lock(proxies, "with"):
            raise AssertionError("two hold the lock")
        time.sleep(3.5)  # longer than the ttl: it is renewed
        first.check()
        assert not free("with")
    fences = []

    def later():
        with Lock(Proxies(URL), "with", wait=20_000) as second:
            second.check()
            fences.append(second.fence)

    with Lock(proxies, "with") as first:
        waits = threading.Thread(target=later)
        waits.start()
        until("nobody waits", lambda: info("with", "waiting") == 1)
    waits.join()
    assert free("with") and fences[0] > first.fence, fences
    with raises(ZeroDivisionError), Lock(proxies, "with"):
        1 / 0
    assert free("with")


def with_lock_lost():
    with raises(LockLost), Lock(proxies, "lost", ttl=3_000) as lock:
        take_away("lost")
        until("held for ever", lambda: time.monotonic() >= lock.until)
        lock.check()
    with raises(LockLost), Lock(proxies, "lost"):
        take_away("lost")  # known at the end at the latest
    assert free("lost")


def with_asyncio():
    async def run():
        proxies = lock_asyncio.Proxies(URL)
        async with lock_asyncio.lock(proxies, "aio", ttl=3_000) as fence:
            with raises(lock_asyncio.LockTaken):
                async with lock_asyncio.lock(proxies, "aio"):
                    raise AssertionError("two hold the lock")
            await asyncio.sleep(3.5)
            assert not free("aio")

        async def later():
            async with lock_asyncio.lock(proxies, "aio", wait=20_000) as second:
                return second

        async with lock_asyncio.lock(proxies, "aio"):
            waits = asyncio.create_task(later())
            while not info("aio", "waiting"):
                await asyncio.sleep(0.005)
        assert await waits > fence and free("aio")

        reached = False
        with raises(lock_asyncio.LockLost):
            async with lock_asyncio.lock(proxies, "aio", ttl=3_000):
                take_away("aio")
                reached = True
                await asyncio.sleep(30)
                raise AssertionError("the block was not cancelled")
        assert reached
        with raises(lock_asyncio.LockLost):
            async with lock_asyncio.lock(proxies, "aio"):
                take_away("aio")
        with raises(TimeoutError):  # one of the block's own stays what it is
            async with lock_asyncio.lock(proxies, "aio"):
                raise TimeoutError
        assert free("aio")

    asyncio.run(run())


def leads():
    """The leader is killed, the next one hangs in a step, the third is deposed: each time another leads."""
    process = subprocess.Popen([sys.executable, __file__, HOST, str(PORT), "lead"], stdout=subprocess.PIPE)
    fences, stop, hangs = [int(process.stdout.readline())], threading.Event(), threading.Event()
    led = {"hangs": [], "last": []}

    def start(name, step):
        candidate = threading.Thread(target=leader.lead, args=(Proxies(URL), "leader", 2_000, step, stop), daemon=True)
        candidate.start()
        until(f"{name} does not wait", lambda: info("leader", "waiting") == 1)
        assert not led[name], "two lead"
        return candidate

    def hang(fence):
        led["hangs"].append(fence)
        hangs.wait(30)

    first = start("hangs", hang)
    process.kill()
    process.wait()
    until("nobody leads", lambda: led["hangs"])
    second = start("last", led["last"].append)
    until("the one that hangs leads", lambda: led["last"])
    assert fences[0] < led["hangs"][0] < led["last"][0], (fences, led)
    take_away("leader")
    until("deposed for ever", lambda: led["last"][-1] > led["last"][0])
    stop.set()
    hangs.set()
    for candidate in first, second:
        candidate.join(30)
        assert not candidate.is_alive()
    assert len(led["hangs"]) == 1 and free("leader"), led


def sells():
    r.hset("stock:book", "left", 20)
    sold = []

    def shop():
        own = connect()
        while (left := stock.sell(Proxies(URL), own, "book", 1)) is not None:
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
            assert stock.sell(proxies, r, "pen", 1) == 2

    r.hset("stock:pen", "left", 3)
    with raises(LockLost):
        stock.sell(proxies, r, "pen", 1, late)
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
        paid.append(payment.pay(Proxies(URL), db, charge, "4711", 25))

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
    leader.lead(proxies, "leader", 2_000, lambda fence: led or led.append(print(fence, flush=True)), threading.Event())

for step in (with_lock, with_lock_lost, with_asyncio, leads, sells, fences, pays, as_redis_py):
    step()
    print(step.__name__, "ok")
print("redis-py", redis.__version__, "all ok")
