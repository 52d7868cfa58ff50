<?php
// A function under a lock of lockproxy, with phpredis: save this file as lock.php. Milliseconds.
//
//   $proxies = new LockProxies(['10.0.0.1:6380', '10.0.0.2:6380'], auth: ['user', 'password']);
//   lockFunction($proxies, 'report', function (HeldLock $lock) {
//       $lock->check(); // before each step that cannot be undone, and every third of the ttl
//       write('report', $lock->fence);
//   }, ttl: 10_000, wait: 5_000);

class LockTaken extends RuntimeException {} // another holds the lock
class LockLost extends RuntimeException {} // the lock is not held any more

class LockProxies
{
    private int $first = 0;
    private array $open = [];

    public function __construct(public readonly array $addresses, private mixed $auth = null) {}

    /** Sends a command to the proxy in use. After an error the next one is in use. */
    public function ask(float $timeout, string ...$command): mixed
    {
        [$at, $redis] = [$this->first, $this->open[$this->first] ?? new Redis()];
        try {
            if (!isset($this->open[$at])) {
                [$host, $port] = explode(':', $this->addresses[$at]);
                $redis->connect($host, (int) $port, 0.5, null, 0, 0.5, $this->auth ? ['auth' => $this->auth] : []);
                $redis->setOption(Redis::OPT_MAX_RETRIES, 0);
            }
            $redis->setOption(Redis::OPT_READ_TIMEOUT, $timeout);
            $redis->clearLastError(); // phpredis answers false for null and for an error
            $reply = $redis->rawCommand(...$command);
            $redis->getLastError() && throw new RedisException($redis->getLastError());
            $this->open[$at] = $redis;
            return $reply;
        } catch (RedisException $e) {
            unset($this->open[$at]);
            $this->first = ($at + 1) % count($this->addresses);
            throw $e;
        }
    }
}

class HeldLock
{
    public readonly int $fence;
    private string $token;
    private float $until;

    public function __construct(private LockProxies $proxies, public readonly string $key, private int $ttl, int $wait)
    {
        [$end, $failed, $granted] = [self::now() + $wait, 0, false];
        $step = max(1000, min($wait / 3, 10_000)); // a proxy that hangs costs a step and a second
        while (!$granted) {
            $sent = self::now();
            $left = (string) max(1, (int) min($step, $end - $sent)); // WAIT 0 would wait for ever
            try {
                $options = $wait > 0 ? ['WAIT', $left] : [];
                $granted = $proxies->ask($step / 1000 + 1, 'LOCK', $key, (string) $ttl, 'FULL', ...$options);
                $granted || self::now() < $end || throw new LockTaken($key);
            } catch (RedisException $e) {
                $final = ++$failed >= count($proxies->addresses) && self::now() >= $end;
                $refused = preg_match('/^(?!NOQUORUM|TRYAGAIN)[A-Z]{3,} /', $e->getMessage());
                $final || $refused ? throw $e : usleep(50_000);
            }
        }
        [$this->token, $this->fence, $validity] = $granted;
        $this->until = ($wait > 0 ? self::now() : $sent) + $validity;
        $wait > 0 && $this->check(PHP_INT_MAX); // the time since $sent went into waiting
    }

    /** Extends the lock. Throws LockLost if it is lost. After an error of all proxies it may be held. */
    public function check(int $tries = 2): void
    {
        while ($tries-- > 0 && self::now() < $this->until) {
            try {
                $sent = self::now();
                $this->until = $sent + $this->ask('EXTEND', (string) $this->ttl, 'FULL')[1]; // lost: 0
                break;
            } catch (RedisException) {
                usleep(10_000);
            }
        }
        self::now() < $this->until || throw new LockLost($this->key);
    }

    public function release(): void
    {
        self::now() < $this->until || throw new LockLost($this->key);
        for ($try = 0; $try < 2; $try++) {
            try { // the first UNLOCK may have done it, though no reply came
                $this->ask('UNLOCK') || $try > 0 || throw new LockLost($this->key);
                return;
            } catch (RedisException) {} // the lock runs out
        }
    }

    private function ask(string $name, string ...$more): mixed
    {
        $patience = min($this->ttl / 4, $name === "UNLOCK" ? 500 : 1000, max(1, $this->until - self::now()));
        return $this->proxies->ask($patience / 1000, $name, $this->key, $this->token, ...$more);
    }

    private static function now(): float { return hrtime(true) / 1e6; }
}

/** Runs $work($lock) under the lock of $key and returns what it returns. Without $wait it tries once. */
function lockFunction(LockProxies $proxies, string $key, callable $work, int $ttl = 10_000, int $wait = 0): mixed
{
    $lock = new HeldLock($proxies, $key, $ttl, $wait);
    try {
        return $work($lock);
    } finally {
        $lock->release();
    }
}
