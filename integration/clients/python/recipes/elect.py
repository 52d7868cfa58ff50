"""One of many processes leads, and each learns at once who it is, with redis-py and lockproxy."""

import logging

import redis
from redis.utils import str_if_bytes


def leaders(r, key, wait):
    """Yields the owner and the fence of who leads, now and at each change; None and 0 is nobody.

    It yields the same again after wait milliseconds. r's socket_timeout is longer than that.
    """
    info = r.execute_command("LOCKINFO", key)
    while True:
        owner, fence = who(info)
        yield owner, fence
        info = r.execute_command("LOCKINFO", key, "SINCE", fence, "WAIT", wait)


def who(info):
    if info is None:
        return None, 0
    pairs = info.items() if isinstance(info, dict) else zip(info[::2], info[1::2])
    fields = {str_if_bytes(name): value for name, value in pairs}
    return str_if_bytes(fields["owner"]), fields["fence"]


def lead(r, key, me, ttl, step, told, stop):
    """Calls step(fence) again and again while this process leads, until the event stop is set.

    While another leads, it calls told(owner, fence): at once when that is somebody else, and every
    ttl milliseconds. me is what the others are told of this process: 1 to 64 printable bytes,
    such as its address. A step takes half of ttl at most. r's socket_timeout is longer than ttl.
    """
    while not stop.is_set():
        try:
            token = r.execute_command("LOCK", key, ttl, "OWNER", me, "WAIT", 100)
            if token is None:
                for owner, fence in leaders(r, key, ttl):
                    if owner is None or stop.is_set():
                        break
                    told(owner, fence)
                continue
            try:
                fence = int(token[:16])
                while not stop.is_set() and r.execute_command("EXTEND", key, token, ttl) == 1:
                    step(fence)
            finally:
                r.execute_command("UNLOCK", key, token)
        except redis.RedisError as error:
            logging.warning("not leading: %s", error)
            stop.wait(1)
