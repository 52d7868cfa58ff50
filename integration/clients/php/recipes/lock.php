<?php
// A function under a lock of lockproxy, with phpredis. Times are milliseconds.

class LockTaken extends RuntimeException {}
class LockLost extends RuntimeException {}

class HeldLock
{
    public readonly int $fence;
    private readonly string $token;
    private float $until;

    public function __construct(private Redis $redis, public readonly string $key, private int $ttl, int $wait)
    {
        $options = $wait > 0 ? ['WAIT', (string) $wait] : []; // WAIT 0 would wait for ever
        $sent = hrtime(true) / 1e6;
        $granted = $this->call('LOCK', $key, (string) $ttl, 'FULL', ...$options);
        if ($granted === false) {
            throw new LockTaken($key);
        }
        [$this->token, $this->fence, $validity] = $granted;
        $this->until = $sent + $validity + $wait;
    }

    /** Throws LockLost if the lock is lost. Call it before each step that cannot be undone, and at
     *  least every third of the ttl: it extends the lock. */
    public function check(): void
    {
        $sent = hrtime(true) / 1e6;
        [, $validity] = $this->call('EXTEND', $this->key, $this->token, (string) $this->ttl, 'FULL');
        $this->until = $sent + $validity; // of a lost lock validity is 0
        if (hrtime(true) / 1e6 >= $this->until) {
            throw new LockLost($this->key);
        }
    }

    /** Reports whether the lock was held until now. */
    public function release(): bool
    {
        $held = hrtime(true) / 1e6 < $this->until;
        try {
            return $this->call('UNLOCK', $this->key, $this->token) === 1 && $held;
        } catch (RedisException) {
            return $held; // the release goes on, or the lock runs out
        }
    }

    /** phpredis answers false for null and for an error. */
    private function call(string ...$command): mixed
    {
        $this->redis->clearLastError();
        $reply = $this->redis->rawCommand(...$command);
        if ($error = $this->redis->getLastError()) {
            throw new RedisException($error);
        }
        return $reply;
    }
}

/** Runs $work($lock) under the lock of $key and returns what it returns. Without $wait it tries
 *  once. The connection's read time-out is longer than $wait. */
function lockFunction(Redis $redis, string $key, callable $work, int $ttl = 10_000, int $wait = 0): mixed
{
    $lock = new HeldLock($redis, $key, $ttl, $wait);
    try {
        $lock->check();
        $result = $work($lock);
    } catch (Throwable $e) {
        $lock->release();
        throw $e;
    }
    if (!$lock->release()) {
        throw new LockLost($key);
    }
    return $result;
}
