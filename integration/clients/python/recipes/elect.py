"""One of many processes leads, and each learns at once who it is: save this file as elect.py beside
lock.py. For redis-py.

from elect import lead, leaders

lead(proxies, "leader", "10.0.0.7:8080", 3_000, step, told, threading.Event())
for owner, fence in leaders(proxies, "leader", 3_000): ...
"""

import logging

import redis
from lock import Lock, LockLost, LockTaken
from redis.utils import str_if_bytes


def leaders(proxies, key, wait):
    """Yields the owner and the fence of who leads, now and at each change; None and 0 is nobody.

    It yields the same again after wait milliseconds. It raises RedisError if no proxy answers.
    """
    since, failed = [], 0
    while True:
        try:
            owner, fence = who(proxies.ask(wait / 1000 + 1, "LOCKINFO", key, *since))
        except redis.RedisError:
            since, failed = [], failed + 1
            if failed >= len(proxies.urls):
                raise
            continue
        yield owner, fence
        since, failed = ["SINCE", fence, "WAIT", wait], 0


def who(info):
    if info is None:
        return None, 0
    pairs = info.items() if isinstance(info, dict) else zip(info[::2], info[1::2])
    fields = {str_if_bytes(name): value for name, value in pairs}
    return str_if_bytes(fields["owner"]), fields["fence"]


def lead(proxies, key, me, ttl, step, told, stop):
    """Calls step(fence) again and again while this process leads, until the event stop is set.

    While another leads, it calls told(owner, fence): at once when that is somebody else, and every
    ttl milliseconds. me is what the others are told of this process: 1 to 64 printable bytes,
    such as its address. A step takes half of ttl at most; where it hangs, another leads after ttl.
    """
    while not stop.is_set():
        try:
            with Lock(proxies, key, ttl, wait=100, renew=False, options=["OWNER", me]) as lock:
                while not stop.is_set():
                    lock.extend()
                    lock.check()
                    step(lock.fence)
        except LockTaken:
            follow(proxies, key, ttl, told, stop)
        except (LockLost, redis.RedisError) as error:
            logging.warning("not leading: %r", error)
            stop.wait(1)


def follow(proxies, key, ttl, told, stop):
    try:
        for owner, fence in leaders(proxies, key, ttl):
            if owner is None or stop.is_set():
                return
            told(owner, fence)
    except redis.RedisError as error:
        logging.warning("not following: %r", error)
        stop.wait(1)
