"""redis-py's own Lock over lockproxy: r.lock("report", timeout=10, lock_class=Lock)."""

import time

import redis.lock
from redis.exceptions import LockError, LockNotOwnedError
from redis.utils import str_if_bytes


class Lock(redis.lock.Lock):
    """The client's socket_timeout is above the wait, or None. redis-py 8 has 5 seconds."""

    def register_scripts(self):
        pass  # lockproxy has commands

    def acquire(self, sleep=None, blocking=None, blocking_timeout=None, token=None):
        if self.timeout is None or token is not None:
            raise LockError("lockproxy needs a timeout, and makes the token itself")
        blocking = self.blocking if blocking is None else blocking
        patience = self.blocking_timeout if blocking_timeout is None else blocking_timeout
        wait = []
        if blocking and patience is None:
            wait = ["WAIT", 0]  # for ever
        elif blocking and patience > 0:
            wait = ["WAIT", max(1, int(patience * 1000))]
        token = self.redis.execute_command("LOCK", self.name, int(self.timeout * 1000), *wait)
        if token is None:
            return False
        self.local.token, self.local.until = token, time.monotonic() + self.timeout
        return True

    def locked(self):
        return self.redis.execute_command("LOCKINFO", self.name) is not None

    def owned(self):  # by the fence, which no two tokens of a key share
        token, info = self.local.token, self.redis.execute_command("LOCKINFO", self.name)
        if token is None or info is None:
            return False
        pairs = info.items() if isinstance(info, dict) else zip(info[::2], info[1::2])
        fence = {str_if_bytes(name): value for name, value in pairs}["fence"]
        return fence == int(str_if_bytes(token)[:16])

    def do_release(self, expected_token):
        if self.redis.execute_command("UNLOCK", self.name, expected_token) != 1:
            raise LockNotOwnedError("Cannot release a lock that's no longer owned")

    def do_extend(self, additional_time, replace_ttl):
        left = 0 if replace_ttl else max(0.0, self.local.until - time.monotonic())
        ttl = int((left + additional_time) * 1000)
        if self.redis.execute_command("EXTEND", self.name, self.local.token, ttl) != 1:
            raise LockNotOwnedError("Cannot extend a lock that's no longer owned")
        self.local.until = max(self.local.until, time.monotonic() + ttl / 1000)
        return True

    def do_reacquire(self):
        return self.do_extend(self.timeout, True)
