"""Stock that many sell, in a hash of Redis that refuses late holders. Needs lock.py beside it."""

from lock import Lock, LockLost

# KEYS[1]: the hash. ARGV: the fence of the writer, what is left. 0: a later holder has written.
WRITE = """
if tonumber(ARGV[1]) < tonumber(redis.call('HGET', KEYS[1], 'fence') or '0') then
	return 0
end
redis.call('HSET', KEYS[1], 'left', ARGV[2], 'fence', ARGV[1])
return 1
"""


def sell(proxies, r, item, count, check=lambda left: None):
    """Takes count of an item and returns how many are left, or None where too few are.

    check looks at other systems, too: the warehouse, the customer's credit. For a number in one
    Redis alone take a script, and no lock.
    """
    with Lock(proxies, f"stock:{item}", wait=10_000) as lock:
        left = int(r.hget(f"stock:{item}", "left") or 0) - count
        if left < 0:
            return None
        check(left)
        if r.eval(WRITE, 1, f"stock:{item}", lock.fence, left) == 0:
            raise LockLost(item)
        return left
