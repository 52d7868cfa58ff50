"""One of many processes leads: save this file as leader.py beside lock.py. For redis-py.

from leader import lead

lead(proxies, "leader", 3_000, step, threading.Event())
"""

import logging

import redis
from lock import Lock, LockLost, LockTaken


def lead(proxies, key, ttl, step, stop):
    """Calls step(fence) again and again while this process leads, until the event stop is set.

    A step takes half of ttl at most, in milliseconds. The lock is renewed between two steps and
    by nothing else: where a step hangs, another process leads after ttl.
    """
    while not stop.is_set():
        try:
            with Lock(proxies, key, ttl, wait=ttl, renew=False) as lock:
                while not stop.is_set():
                    lock.extend()
                    lock.check()
                    step(lock.fence)
        except LockTaken:
            pass  # another leads
        except (LockLost, redis.RedisError) as error:
            logging.warning("not leading: %r", error)
            stop.wait(1)
