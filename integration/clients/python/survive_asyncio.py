"""The recipe lock_asyncio.py while proxies and masters die. Usage: survive_asyncio.py count|hold NAME FOLDER ADDRESS...

count adds 1 to the file counter under a lock until there is a file stop, and writes how often it
did so. hold keeps a lock until it is lost. The test reads the files and the last line.
"""

import asyncio
import sys
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).with_name("recipes")))

from lock_asyncio import LockLost, LockTaken, Proxies, lock

role, name, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
proxies = Proxies(*("redis://" + address for address in sys.argv[4:]))


async def count():
    counter, done = folder / "counter", 0
    while not (folder / "stop").exists():
        try:
            async with lock(proxies, "counter", ttl=2_000, wait=15_000):
                n = int(counter.read_text())
                await asyncio.sleep(0.005)
                counter.write_text(str(n + 1))
                done += 1
                (folder / f"done.{name}").write_text(str(done))
        except (LockTaken, LockLost) as error:
            print(repr(error), flush=True)
        await asyncio.sleep(0.02)


async def hold():
    try:
        async with lock(proxies, f"hold:{name}", ttl=20_000, wait=5_000) as fence:
            (folder / f"held.{name}").write_text(str(fence))
            await asyncio.sleep(600)
    except LockLost as lost:
        assert f"hold:{name}" in str(lost), lost


asyncio.run({"count": count, "hold": hold}[role]())
print("all ok")
