<?php
// A function under a lock of lockproxy, with phpredis: save this file as lock.php. Milliseconds.
//
//   $options = ['auth' => ['user', 'password']]; // of the last parameter of Redis::connect
//   $proxies = new LockProxies(['10.0.0.1:6380', '10.0.0.2:6380'], $options);
//   $proxies->lock('report', function (int $fence, callable $check) {
//       $check(); // before each step that cannot be undone, and every third of the ttl
//       write('report', $fence);
//   }, ttl: 10_000, wait: 5_000);

class LockTaken extends RuntimeException {} // another holds the lock
class LockLost extends RuntimeException {} // the lock is not held any more

class LockProxies
{
    private int $first = 0;
    private array $open = [];

    public function __construct(private array $addresses, private array $options = []) {}

    /** Sends a command to the proxy in use. After an error the next one is in use. */
    private function ask(float $timeout, string ...$command): mixed
    {
        [$at, $redis] = [$this->first, $this->open[$this->first] ?? new Redis()];
        try {
            if (!isset($this->open[$at])) {
                [$host, $port] = explode(':', $this->addresses[$at]);
                $redis->connect($host, (int) $port, 0.5, null, 0, 0.5, $this->options);
                $redis->setOption(Redis::OPT_MAX_RETRIES, 0);
            }
            $redis->setOption(Redis::OPT_READ_TIMEOUT, $timeout / 1000);
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

    /** Returns what $work returns. Without $wait it tries once. */
    public function lock(string $key, callable $work, int $ttl = 10_000, int $wait = 0): mixed
    {
        [$end, $failed, $granted] = [self::now() + $wait, 0, false];
        $step = max(1000, min($wait / 3, 10_000)); // a proxy that hangs costs a step and a second
        while (!$granted) {
            $sent = self::now();
            $left = max(1, (int) min($step, $end - $sent)); // WAIT 0 would wait for ever
            try {
                $options = $wait > 0 ? ['FULL', 'WAIT', $left] : ['FULL'];
                $granted = $this->ask($step + 1000, 'LOCK', $key, $ttl, ...$options);
                $granted || self::now() < $end || throw new LockTaken($key);
            } catch (RedisException $e) {
                $final = ++$failed >= count($this->addresses) && self::now() >= $end;
                $refused = preg_match('/^(?!NOQUORUM|TRYAGAIN)[A-Z]{3,} /', $e->getMessage());
                $final || $refused ? throw $e : usleep(50_000);
            }
        }
        [$token, $fence, $validity] = $granted;
        $until = ($wait > 0 ? self::now() : $sent) + $validity;
        // Extends the lock. Throws LockLost if it is lost. After two errors it may be held.
        $check = function (int $tries = 2) use ($key, $token, $ttl, &$until): void {
            while ($tries-- > 0 && ($sent = self::now()) < $until) {
                try {
                    $patience = max(1, min($ttl / 4, 1000, $until - $sent)); // 0 would have no end
                    $reply = $this->ask($patience, 'EXTEND', $key, $token, $ttl, 'FULL');
                    [$until, $tries] = [$sent + $reply[1], 0]; // of a lost lock validity is 0
                } catch (RedisException) {
                    usleep(10_000);
                }
            }
            self::now() < $until || throw new LockLost($key);
        };
        $wait > 0 && $check(PHP_INT_MAX); // the time since LOCK was sent went into waiting
        try {
            return $work($fence, $check);
        } finally {
            $check(tries: 0);
            for ($try = 0; $try < 2; $try++) {
                try { // the first UNLOCK may have done it, though no reply came
                    $kept = $this->ask(500, 'UNLOCK', $key, $token) || $try > 0;
                    $kept || throw new LockLost($key);
                    break;
                } catch (RedisException) {} // the lock runs out
            }
        }
    }

    private static function now(): float { return hrtime(true) / 1e6; }
}
