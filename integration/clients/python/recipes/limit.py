"""A rate limit and worker numbers, with LIMIT. Times are milliseconds."""


def allowed(r, name, limit, per):
    """Reports whether one more may run: at most limit in any span of per milliseconds.

    The lock is never unlocked, it runs out. limit is 1 to 128.
    """
    return r.execute_command("LOCK", f"rate:{name}", per, "LIMIT", limit) is not None


def worker_number(r, name, workers, ttl=10_000):
    """Returns a number from 0 that no other process has, and its token; None where all are taken.

    r has a connection of its own: redis.Redis(..., single_connection_client=True). The number is
    this process's until the connection ends. EXTEND answers 0 where it was lost before.
    """
    granted = r.execute_command("LOCK", f"worker:{name}", ttl, "LIMIT", workers, "SESSION", "FULL")
    if granted is None:
        return None
    token, _, _, number = granted
    return number, token
