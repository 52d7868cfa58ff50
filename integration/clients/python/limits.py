"""What docs/recipes.md shows of LIMIT, for redis-py. Usage: limits.py HOST PORT"""

import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).with_name("recipes")))

import redis

import limit

HOST, PORT = sys.argv[1], int(sys.argv[2])


def connect(**options):
    return redis.Redis(host=HOST, port=PORT, **options)


def rates():
    """Many ask for three seconds: no span of 600 ms has more than three, and they are let in again."""
    grants, start = [], time.monotonic()  # (when it was answered, when it was asked)

    def ask(r):
        while time.monotonic() < start + 3 or len(grants) < 6 and time.monotonic() < start + 30:
            sent = time.monotonic()
            try:
                if limit.allowed(r, "api", 3, 600):
                    grants.append((time.monotonic(), sent))
            except redis.ResponseError as error:  # on a busy machine masters may be silent
                assert str(error).startswith(("NOQUORUM ", "TRYAGAIN ")), error
            time.sleep(0.005)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(ask, [connect() for _ in range(4)]))  # raises what an ask raised
    grants.sort()
    # A slot was taken between the question and the answer.
    fours = [grants[i : i + 4] for i in range(len(grants) - 3)]
    spans = [four[-1][0] - min(sent for _, sent in four) for four in fours]
    assert len(grants) >= 6, grants
    assert min(spans) > 0.59, spans


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
