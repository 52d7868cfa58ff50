"""A lock of lockproxy for redis-py: save this file as lock.py. Times are milliseconds.

from lock import Lock, LockLost, LockTaken, Proxies
proxies = Proxies("redis://10.0.0.1:6380", "redis://10.0.0.2:6380")  # once in a process
with Lock(proxies, "report", ttl=10_000, wait=5_000) as lock:
    lock.check()  # before each step that cannot be undone
    write(report, lock.fence)
"""
import threading, time
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry


class LockTaken(Exception): ...  # another holds the lock
class LockLost(Exception): ...  # the lock is not held any more


class Proxies:
    def __init__(self, *urls):
        self.urls, self.first, self.clients = urls, 0, {}

    def ask(self, timeout, *command):
        """Sends a command to the proxy in use. After an error the next one is in use."""
        at, options = self.first, {"socket_timeout": timeout, "socket_connect_timeout": 0.5}
        if (at, timeout) not in self.clients:
            r = redis.Redis.from_url(self.urls[at], retry=Retry(NoBackoff(), 0), **options)
            self.clients[at, timeout] = r
        try:
            return self.clients[at, timeout].execute_command(*command)
        except redis.RedisError:
            self.first = (at + 1) % len(self.urls)
            raise


class Lock:
    """Without wait it tries once. The lock is renewed until the block ends, if renew is True."""

    def __init__(self, proxies, key, ttl=10_000, wait=0, renew=True, options=()):
        self.proxies, self.key, self.ttl, self.wait, self.renew = proxies, key, ttl, wait, renew
        self.options, self.ended = options, threading.Event()
        self.patience = min(ttl / 4000, 2 if renew else 0.5)  # with a proxy that does not answer

    def __enter__(self):
        end, failed, granted = time.monotonic() + self.wait / 1000, 0, None
        step = max(1, min(self.wait / 3000, 10))  # a proxy that hangs costs a step and a second
        while not granted:
            sent = time.monotonic()
            left = max(1, int(min(step, end - sent) * 1000))  # WAIT 0 would wait for ever
            options = [*self.options, "WAIT", left] if self.wait else self.options
            try:
                granted = self.proxies.ask(step + 1, "LOCK", self.key, self.ttl, "FULL", *options)
                if not granted and time.monotonic() >= end:
                    raise LockTaken(self.key)
            except redis.RedisError as error:
                failed += 1
                final = failed >= len(self.proxies.urls) and time.monotonic() >= end
                passing = str(error)[:8] in ("NOQUORUM", "TRYAGAIN")
                if final or isinstance(error, redis.ResponseError) and not passing:
                    raise
                time.sleep(0.05)
        self.token, self.fence, validity = granted
        self.until = (time.monotonic() if self.wait else sent) + validity / 1000
        if self.wait:  # the time since sent went into waiting: ask how long it is held
            self.extend()
        self.check()
        if self.renew:
            threading.Thread(target=self._renew, daemon=True).start()
        return self

    def check(self):
        if time.monotonic() >= self.until:
            raise LockLost(self.key)

    def extend(self):
        """Renews the lock. After an error it tries again, until the lock is lost or unlocked."""
        command = "EXTEND", self.key, self.token, self.ttl, "FULL"
        while (sent := time.monotonic()) < self.until:
            try:
                self.until = sent + self.proxies.ask(self.patience, *command)[1] / 1000  # lost: 0
                return
            except redis.RedisError:
                if self.ended.wait(max(0, min(self.ttl / 20_000, self.until - time.monotonic()))):
                    return

    def _renew(self):
        while not self.ended.wait(self.ttl / 3000) and time.monotonic() < self.until:
            self.extend()

    def __exit__(self, kind, error, trace):
        self.ended.set()
        kept = time.monotonic() < self.until
        for again in (False, True) if kept else ():
            try:  # the first UNLOCK may have done it, though no reply came
                kept = self.proxies.ask(0.5, "UNLOCK", self.key, self.token) == 1 or again
                break
            except redis.RedisError: pass  # the lock runs out
        if not kept and kind is None:
            raise LockLost(self.key)
