"""One of many processes leads, with a SESSION lock of lockproxy, for redis-py."""

import logging

import redis


def lead(r, key, ttl, step, stop):
    """Calls step(fence) again and again while this process leads, until the event stop is set.

    r has a connection of its own: redis.Redis(..., single_connection_client=True). Its
    socket_timeout is longer than ttl, which is milliseconds. A step takes half of ttl at most.
    """
    while not stop.is_set():
        try:
            granted = r.execute_command("LOCK", key, ttl, "FULL", "SESSION", "WAIT", ttl)
            if granted is None:
                continue  # another leads
            token, fence, _ = granted
            while not stop.is_set() and r.execute_command("EXTEND", key, token, ttl) == 1:
                step(fence)
            r.execute_command("UNLOCK", key, token)
        except redis.RedisError as error:
            logging.warning("not leading: %s", error)
            r.connection.disconnect()  # the end of the connection is the end of a SESSION lock
            stop.wait(1)
