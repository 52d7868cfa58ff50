"""redis-py's own ways of working, with lock commands among them. Usage: client.py HOST PORT"""

import sys
import threading
import time

import redis
from redis.backoff import ExponentialBackoff
from redis.retry import Retry

HOST, PORT = sys.argv[1], int(sys.argv[2])


def connect(**options):
    return redis.Redis(host=HOST, port=PORT, decode_responses=True, **options)


def lock(r, key, *options):
    return r.execute_command("LOCK", key, "30s", *options)


def unlock(r, key, token):
    got = r.execute_command("UNLOCK", key, token)
    assert got == 1, f"UNLOCK {key}: {got}"


def single():
    r = connect()
    token = lock(r, "py")
    assert len(token) == 57, token
    assert lock(r, "py") is None
    unlock(r, "py", token)
    try:
        r.execute_command("LOCK", "py", "x")
        raise AssertionError("a bad ttl was accepted")
    except redis.ResponseError as e:
        assert "invalid expire time" in str(e), e
    full = lock(r, "py", "FULL", "OWNER", "me")
    assert full[2] > 20000, full
    unlock(r, "py", full[0])


def pipeline():
    r = connect()
    p = r.pipeline(transaction=False)
    for i in range(100):
        p.set(f"py:{i}", i)
        p.execute_command("LOCK", f"py:{i}", "30s")
        p.get(f"py:{i}")
    replies = p.execute()
    for i in range(100):
        ok, token, value = replies[3 * i : 3 * i + 3]
        assert ok is True and len(token) == 57 and value == str(i), (ok, token, value)
        p.execute_command("UNLOCK", f"py:{i}", token)
    assert p.execute() == [1] * 100


def transaction():
    r = connect()
    assert r.pipeline().set("tx", "1").incr("tx").execute() == [True, 2]

    def add(p):
        n = int(p.get("tx"))
        p.multi()
        p.set("tx", n + 1)

    r.transaction(add, "tx")
    assert r.get("tx") == "3"
    p = r.pipeline().set("tx", "lost")
    p.execute_command("LOCK", "tx", "30s")
    try:
        p.execute()
        raise AssertionError("LOCK ran in a transaction")
    except redis.RedisError as e:
        assert "not allowed in transactions" in str(e) or "EXECABORT" in str(e), e
    assert r.get("tx") == "3"


def pubsub():
    r = connect()
    p = r.pubsub()
    p.subscribe("news")
    p.psubscribe("n*")
    heard = []
    while len(heard) < 20:
        m = p.get_message(timeout=5)
        assert m, "no message came"
        if m["type"] in ("message", "pmessage"):
            heard.append(m["data"])
        if m["type"] == "psubscribe":
            for i in range(10):
                token = lock(r, f"news:{i}")
                r.publish("news", token)
                unlock(r, f"news:{i}", token)
    assert all(len(h) == 57 for h in heard), heard
    p.close()


def scripting():
    r = connect()
    script = r.register_script("return {KEYS[1], ARGV[1], redis.call('INCR', KEYS[1])}")
    r.script_flush()
    for i in range(3):
        token = lock(r, "script")
        assert script(keys=["n"], args=[token]) == ["n", token, i + 1]
        unlock(r, "script", token)


def blocking():
    r, other = connect(), connect()
    timer = threading.Timer(0.2, lambda: other.rpush("queue", "x"))
    timer.start()
    assert r.blpop("queue", timeout=10) == ("queue", "x")
    timer.join()
    token = lock(r, "queue")
    assert other.execute_command("LOCK", "queue", "30s", "WAIT", "100ms") is None
    unlock(r, "queue", token)
    assert r.blpop("none", timeout=1) is None


def scan():
    r = connect()
    p = r.pipeline(transaction=False)
    for i in range(1000):
        p.hset("scanned", f"f{i}", "v" * 100)
        p.set(f"scanned:{i}", i)
    p.execute()
    assert len(list(r.scan_iter("scanned:*", count=100))) == 1000
    assert len(list(r.hscan_iter("scanned"))) == 1000


def reconnect():
    retry = Retry(ExponentialBackoff(cap=0.5, base=0.01), 3)
    r, killer = connect(retry=retry, retry_on_error=[redis.ConnectionError]), connect()
    for i in range(5):
        token = lock(r, "again")
        killer.client_kill_filter(_id=r.client_id())
        # Over a new connection the token suffices. 0: the first try ran, and its reply was lost.
        assert r.execute_command("UNLOCK", "again", token) in (0, 1)
        assert r.execute_command("LOCKINFO", "again") is None
        assert r.set("again", i)


def pool():
    """Twenty threads add to a number under a lock. Without it most of what they add would be lost."""
    r = connect(max_connections=20)
    r.set("sum", 0)
    failed = []

    def add():
        try:
            for _ in range(10):
                token = lock(r, "sum", "WAIT", "20s")
                n = int(r.get("sum"))
                time.sleep(0.0005)
                r.set("sum", n + 1)
                unlock(r, "sum", token)
        except Exception as e:
            failed.append(e)

    threads = [threading.Thread(target=add) for _ in range(20)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failed, failed
    assert r.get("sum") == "200", r.get("sum")


def kinds():
    """Every kind of lock: shared, limited, several keys at once, made shared, kept closed."""
    r = connect()
    readers = [lock(r, "py", "SHARED") for _ in range(2)]
    assert lock(r, "py") is None
    for token in readers:
        unlock(r, "py", token)
    slots = [lock(r, "py", "LIMIT", 2, "FULL") for _ in range(2)]
    assert {full[3] for full in slots} == {0, 1}, slots
    assert lock(r, "py", "LIMIT", 2) is None
    for full in slots:
        unlock(r, "py", full[0])
    both = lock(r, "py", "KEYS", 1, "py:other")
    assert lock(r, "py:other") is None
    assert r.execute_command("EXTEND", "py", both, "30s", "KEYS", 1, "py:other") == 1
    assert r.execute_command("UNLOCK", "py", both, "KEYS", 1, "py:other") == 1
    token = lock(r, "py")
    assert r.execute_command("EXTEND", "py", token, "30s", "SHARED") == 1
    assert r.execute_command("UNLOCK", "py", token) == 1
    token = lock(r, "py")
    assert r.execute_command("UNLOCK", "py", token, "KEEP", "2s") == 1
    info = r.execute_command("LOCKINFO", "py")
    assert dict(zip(info[::2], info[1::2]))["mode"] == "kept", info
    assert r.execute_command("LOCKINFO", "py", "SINCE", int(token[:16]), "WAIT", "20s") is None
    unlock(r, "py", lock(r, "py", "WAIT", "20s"))
    try:
        lock(r, "py", "SHARED", "LIMIT", 2)
        raise AssertionError("SHARED with LIMIT was accepted")
    except redis.ResponseError as e:
        assert "syntax error" in str(e), e


for step in (single, kinds, pipeline, transaction, pubsub, scripting, blocking, scan, reconnect, pool):
    step()
    print(step.__name__, "ok")
print("redis-py", redis.__version__, "all ok")
