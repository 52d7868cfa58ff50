"""What docs/recipes.md shows of LOCKINFO SINCE, for redis-py. Usage: elections.py HOST PORT"""

import contextlib
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).with_name("recipes")))

import redis

import elect
from lock import Proxies

HOST, PORT = sys.argv[1], int(sys.argv[2])
TTL = 20_000
AT_ONCE = 10  # seconds, far under TTL: busy machines take their time


URL = f"redis://{HOST}:{PORT}"
r = redis.Redis.from_url(URL)


def until(what, true):
    end = time.monotonic() + AT_ONCE
    while not true():
        assert time.monotonic() < end, what
        time.sleep(0.005)


class Candidate:
    """A process that would lead, in a thread."""

    def __init__(self, name, key, ttl=TTL):
        self.name, self.led, self.heard, self.stop = name, [], [], threading.Event()
        self.proxies = Proxies(URL)
        self.thread = threading.Thread(daemon=True,
            target=elect.lead, args=(self.proxies, key, name, ttl, self.step, self.told, self.stop))
        self.thread.start()

    def step(self, fence):
        self.led.append(fence)
        time.sleep(0.01)

    def told(self, owner, fence):
        self.heard.append((owner, fence))

    def end(self):
        self.stop.set()
        self.thread.join(60)
        assert not self.thread.is_alive(), self.name


class Watcher:
    """Hears who leads, and would not lead itself."""

    def __init__(self, key):
        self.heard, self.stop = [], threading.Event()
        self.thread = threading.Thread(target=self.run, args=(key,), daemon=True)
        self.thread.start()

    def run(self, key):
        for leader in elect.leaders(Proxies(URL), key, 1_000):
            if not self.heard or self.heard[-1] != leader:
                self.heard.append(leader)
            if self.stop.is_set():
                return

    def end(self):
        self.stop.set()
        self.thread.join(60)
        assert not self.thread.is_alive()


def one_leads():
    """All hear of the leader and of the next one, which comes long before the ttl."""
    watcher = Watcher("chair")
    until("nothing heard", lambda: watcher.heard == [(None, 0)])
    first = Candidate("first", "chair")
    until("nobody leads", lambda: first.led)
    others = [Candidate(f"other {n}", "chair") for n in range(3)]
    reign = ("first", first.led[0])
    until("not all know", lambda: all(o.heard[-1:] == [reign] for o in others) and watcher.heard[-1] == reign)
    assert not any(o.led for o in others), "two lead"

    first.end()
    until("nobody follows", lambda: any(o.led for o in others))
    second = next(o for o in others if o.led)
    reign = (second.name, second.led[0])
    assert reign[1] > first.led[0]
    rest = [o for o in others if o is not second]
    until("not all know the next one", lambda: all(o.heard[-1:] == [reign] for o in rest) and watcher.heard[-1] == reign)
    assert not any(o.led for o in rest), "two lead"
    for o in rest + [second]:  # one that follows looks at stop when the leader goes, or after ttl
        o.stop.set()
    for o in others:
        o.end()
    until("somebody leads", lambda: watcher.heard[-1] == (None, 0))
    watcher.end()
    fences = [fence for _, fence in watcher.heard if fence]
    assert fences == sorted(set(fences)), watcher.heard


def one_dies():
    """The leader is killed: its lock runs out, all hear of the next one, and its fence is greater."""
    process = subprocess.Popen([sys.executable, __file__, HOST, str(PORT), "lead"], stdout=subprocess.PIPE)
    died = int(process.stdout.readline())
    next_one, watcher = Candidate("next", "throne", ttl=2_000), Watcher("throne")
    until("the leader is not known", lambda: next_one.heard[-1:] == [("dies", died)])
    process.kill()
    process.wait()
    until("nobody follows", lambda: next_one.led)
    until("the next one is not known", lambda: watcher.heard[-1] == ("next", next_one.led[0]))
    assert next_one.led[0] > died
    next_one.end()
    watcher.end()
    assert r.execute_command("LOCKINFO", "throne") is None


def one_is_deposed():
    """The leader's lock is released by an operator: it stops, and the next reign has another fence."""
    watcher = Watcher("office")
    leader = Candidate("leader", "office")
    until("nobody leads", lambda: leader.led)
    other = Candidate("other", "office")
    first = leader.led[0]
    until("the leader is not known", lambda: ("leader", first) in other.heard and ("leader", first) in watcher.heard)
    assert r.execute_command("LOCKPROXY", "RELEASE", "office") == 1
    until("nobody leads again", lambda: watcher.heard[-1][1] > first)
    until("the old reign goes on", lambda: leader.led[-1] > first or leader.heard and leader.heard[-1][1] > first)
    for o in leader, other:
        o.stop.set()
    for o in leader, other:
        o.end()
    watcher.end()


def one_is_cut_off():
    """The leader's connections break, and it leads on: it sends the EXTEND again."""
    leader = Candidate("leader", "post", ttl=8_000)
    until("nobody leads", lambda: leader.led)
    for _ in range(3):
        for client in leader.proxies.clients.values():
            pool = client.connection_pool
            for connection in [*pool._in_use_connections, *pool._available_connections]:
                if connection._sock:
                    with contextlib.suppress(OSError):  # it is not connected any more
                        connection._sock.shutdown(socket.SHUT_RDWR)
        steps = len(leader.led)
        until("it leads no more", lambda: len(leader.led) > steps + 2)
    assert len(set(leader.led)) == 1, leader.led
    leader.end()


if sys.argv[3:] == ["lead"]:
    led = []
    elect.lead(Proxies(URL), "throne", "dies", 2_000, lambda fence: led or led.append(print(fence, flush=True)), None, threading.Event())

for step in (one_leads, one_dies, one_is_deposed, one_is_cut_off):
    step()
    print(step.__name__, "ok")
print("redis-py", redis.__version__, "all ok")
