"""A lock of lockproxy as a context manager, for redis-py. Times are milliseconds.

with Lock(r, "report", ttl=10_000, wait=5_000) as lock:
    for part in parts:
        lock.check()
        write(part, lock.fence)
"""

import threading
import time

import redis


class LockTaken(Exception):
    """Another holds the lock."""


class LockLost(Exception):
    """The lock is not held any more."""


class Lock:
    """Takes the lock and renews it in a thread until the block ends. Without wait it tries once.

    The socket_timeout of r is longer than wait, or None.
    """

    def __init__(self, r, key, ttl=10_000, wait=0):
        self.r, self.key, self.ttl, self.wait = r, key, ttl, wait

    def __enter__(self):
        options = ["WAIT", self.wait] if self.wait else []  # WAIT 0 would wait for ever
        sent = time.monotonic()
        granted = self.r.execute_command("LOCK", self.key, self.ttl, "FULL", *options)
        if granted is None:
            raise LockTaken(self.key)
        self.token, self.fence, validity = granted
        self.until = sent + validity / 1000
        self.ended = threading.Event()
        try:
            if self.wait:  # the time since sent went into waiting
                self.extend()
            self.check()
        except BaseException:
            self.r.execute_command("UNLOCK", self.key, self.token)
            raise
        threading.Thread(target=self._renew, daemon=True).start()
        return self

    def extend(self):
        sent = time.monotonic()
        _, validity = self.r.execute_command("EXTEND", self.key, self.token, self.ttl, "FULL")
        self.until = sent + validity / 1000  # of a lost lock validity is 0

    def held(self):
        return time.monotonic() < self.until

    def check(self):
        """Raises LockLost if the lock is lost. Call it before each step that cannot be undone."""
        if not self.held():
            raise LockLost(self.key)

    def _renew(self):
        pause = self.ttl / 3000
        while not self.ended.wait(pause) and self.held():
            try:
                self.extend()
                pause = self.ttl / 3000
            except redis.RedisError:  # no majority for the moment: again, until validity ends
                pause = self.ttl / 20_000

    def __exit__(self, kind, error, trace):
        self.ended.set()
        held = self.held()
        try:
            held &= self.r.execute_command("UNLOCK", self.key, self.token) == 1
        except redis.RedisError:  # the release goes on, or the lock runs out
            pass
        if not held and kind is None:
            raise LockLost(self.key)
