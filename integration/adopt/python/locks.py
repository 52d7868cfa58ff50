"""redis-py's Lock. The protocol is in ../program_test.go."""

import json
import queue
import sys
import threading

import redis
from redis.exceptions import LockError


class Client(threading.Thread):
    """A thread with a connection pool of its own, because a lock belongs to its thread."""

    def __init__(self, addr, password):
        super().__init__(daemon=True)
        host, port = addr.split(":")
        self.redis = redis.Redis(host=host, port=int(port), password=password)
        self.requests = queue.Queue()
        self.lock = None

    def run(self):
        while True:
            request = self.requests.get()
            answer(request, lambda: self.do(**request))

    def do(self, op, key="", ttl=0, wait=0, **_):
        if op == "acquire":
            lock = self.redis.lock(
                key, timeout=ttl / 1000, sleep=0.02, blocking=wait > 0, blocking_timeout=wait / 1000
            )
            got = lock.acquire()
            if got:
                self.lock = lock
            return got
        if op == "add":  # loses a count if another client is between the two commands
            self.redis.set(key, int(self.redis.get(key) or 0) + 1)
            return True
        if op == "held":
            return self.lock.owned()
        if op == "close":
            self.redis.close()
            return True
        try:
            if op == "release":
                self.lock.release()
            elif op == "extend":  # adds to the rest
                self.lock.extend(ttl / 1000)
            elif op == "replace":
                self.lock.extend(ttl / 1000, replace_ttl=True)
            elif op == "reacquire":
                self.lock.reacquire()
            else:
                raise ValueError(op)
        except LockError:  # LockNotOwnedError is one
            return False
        return True


said = threading.Lock()


def answer(request, do):
    reply = {"id": request["id"]}
    try:
        reply["yes"] = do()
    except Exception as e:
        reply["error"] = f"{type(e).__name__}: {e}"
    with said:
        print(json.dumps(reply), flush=True)


clients = {}


def connect(who, addr, password=None, **_):
    clients[who] = Client(addr, password)
    clients[who].start()
    return True


for line in sys.stdin:
    request = json.loads(line)
    if request["op"] == "connect":
        answer(request, lambda: connect(**request))
    else:
        clients[request["who"]].requests.put(request)
