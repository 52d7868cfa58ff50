"""What docs/recipes.md shows of LIMIT, for redis-py. Usage: limits.py HOST PORT"""

import sys
import threading
import time
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).with_name("recipes")))

import redis

import limit

HOST, PORT = sys.argv[1], int(sys.argv[2])


def connect(**options):
    return redis.Redis(host=HOST, port=PORT, **options)


def rates():
    """Many ask for three seconds: no span of 600 ms has more than three, and they go on being let in."""
    times, end = [], time.monotonic() + 3

    def ask():
        r = connect()
        while time.monotonic() < end:
            if limit.allowed(r, "api", 3, 600):
                times.append(time.monotonic())
            time.sleep(0.005)

    askers = [threading.Thread(target=ask) for _ in range(4)]
    for a in askers:
        a.start()
    for a in askers:
        a.join()
    times.sort()
    # A client reads its reply a little later than the slot was taken, and not each as late as the other.
    spans = [b - a for a, b in zip(times, times[3:])]
    assert len(times) >= 6, times
    assert min(spans) > 0.3, spans


def numbers():
    workers = [connect(single_connection_client=True) for _ in range(3)]
    got = [limit.worker_number(w, "mail", 3) for w in workers]
    assert sorted(number for number, _ in got) == [0, 1, 2], got
    late = connect(single_connection_client=True)
    assert limit.worker_number(late, "mail", 3) is None
    workers[1].connection.disconnect()  # as at the end of its process
    end, found = time.monotonic() + 30, None
    while found is None and time.monotonic() < end:
        found = limit.worker_number(late, "mail", 3)
    assert found and found[0] == got[1][0] and found[1] != got[1][1], (got, found)
    assert late.execute_command("UNLOCK", "worker:mail", found[1]) == 1


for step in (rates, numbers):
    step()
    print(step.__name__, "ok")
print("redis-py", redis.__version__, "all ok")
