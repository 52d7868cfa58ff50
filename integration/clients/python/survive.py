"""lock.py, leader.py and elect.py while proxies and masters die. Usage: survive.py count|hold NAME FOLDER ADDRESS...

count adds 1 to the file counter under a lock until there is a file stop, and writes how often it
did so. hold keeps a lock until it is lost; if the name is leader or elect, it leads for so long.
The test reads the files and the last line.
"""

import logging
import sys
import threading
import time
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).with_name("recipes")))

import elect
import leader
from lock import Lock, LockLost, LockTaken, Proxies

role, name, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
proxies = Proxies(*("redis://" + address for address in sys.argv[4:]))


def count():
    counter, done = folder / "counter", 0
    while not (folder / "stop").exists():
        try:
            with Lock(proxies, "counter", ttl=2_000, wait=15_000) as lock:
                n = int(counter.read_text())
                time.sleep(0.005)
                lock.check()
                counter.write_text(str(n + 1))
                done += 1
                (folder / f"done.{name}").write_text(str(done))
        except (LockTaken, LockLost) as error:
            print(repr(error), flush=True)
        time.sleep(0.02)


def hold():
    if name in ("leader", "elect"):
        return leads()
    try:
        with Lock(proxies, f"hold:{name}", ttl=20_000, wait=5_000) as lock:
            (folder / f"held.{name}").write_text(str(lock.fence))
            while True:
                time.sleep(0.01)
                lock.check()
    except LockLost as lost:
        assert f"hold:{name}" in str(lost), lost


def leads():
    """Leads until the lock is lost, and no longer: the lock has one fence."""
    led, stop, said = [], threading.Event(), []

    def step(fence):
        if not led:
            (folder / f"held.{name}").write_text(str(fence))
        led.append(fence)
        time.sleep(0.05)

    class Handler(logging.Handler):
        def emit(self, record):
            said.append(record.getMessage())
            stop.set()

    logging.getLogger().addHandler(Handler())
    if name == "leader":
        leader.lead(proxies, f"hold:{name}", 20_000, step, stop)
    else:
        elect.lead(proxies, f"hold:{name}", "me", 20_000, step, None, stop)
    assert len(set(led)) == 1 and f"hold:{name}" in said[0], (set(led), said)


{"count": count, "hold": hold}[role]()
print("all ok")
