"""Locks of libraries for one Redis, and LOCK, where that Redis is upstream and only master. Usage: moving.py HOST PORT"""

import sys

import redis

r = redis.Redis(host=sys.argv[1], port=int(sys.argv[2]))


def lock(*options):
    return r.execute_command("LOCK", "job", "20s", *options)


def unlock(token):
    assert r.execute_command("UNLOCK", "job", token) == 1


theirs = r.lock("lock:job", timeout=20)
assert theirs.acquire(blocking=False)
assert lock() is None
assert theirs.extend(5) and theirs.owned()
theirs.release()
token = lock()
assert token
assert not theirs.acquire(blocking=False)
theirs.local.token = b"mine"
for change in theirs.reacquire, theirs.release:
    try:
        change()
        raise AssertionError("it took the lock of another for its own")
    except redis.exceptions.LockNotOwnedError:
        theirs.local.token = b"mine"
unlock(token)

# Redisson keeps a hash at the lock's name.
r.hset("lock:job", "id:1", 1)
r.pexpire("lock:job", 20_000)
assert lock() is None and r.hget("lock:job", "id:1") == b"1"
r.delete("lock:job")
token = lock()
try:
    r.hexists("lock:job", "id:1")
    raise AssertionError("a lock of lockproxy is a hash")
except redis.exceptions.ResponseError as error:
    assert "WRONGTYPE" in str(error), error
unlock(token)
print("redis-py", redis.__version__, "all ok")
