<?php
// What docs/recipes.md shows for PHP, against a proxy with admin-commands. Usage: recipes.php HOST PORT

require __DIR__ . '/recipes/lock.php';

function connect(): Redis
{
    global $argv;
    $r = new Redis();
    $r->connect($argv[1], (int) $argv[2], 20);
    $r->setOption(Redis::OPT_READ_TIMEOUT, 60);
    return $r;
}

function check($ok, $got = null): void
{
    if (!$ok) {
        fwrite(STDERR, (new Exception('got ' . var_export($got, true)))->__toString() . "\n");
        exit(1);
    }
}

/** Checks that $work throws the kind. */
function throws(string $kind, callable $work): void
{
    try {
        $work();
    } catch (Throwable $e) {
        check($e instanceof $kind, $e);
        return;
    }
    check(false, "no $kind");
}

$admin = connect();
$proxies = new LockProxies(["$argv[1]:$argv[2]"]);
$free = fn (string $key) => $admin->rawCommand('LOCKINFO', $key) === false;
$takeAway = fn (string $key) => check($admin->rawCommand('LOCKPROXY', 'RELEASE', $key) === 1);

$fences = [];
for ($i = 0; $i < 2; $i++) {
    $got = $proxies->lock('php', function (int $fence, callable $check) use ($proxies, $i, $free, &$fences) {
        throws(LockTaken::class, fn () => $proxies->lock('php', fn () => check(false)));
        $fences[] = $fence;
        for ($n = $i === 0 ? 5 : 0; $n > 0; $n--) {
            usleep(700_000); // longer than the ttl in all
            $check();
        }
        check(!$free('php'));
        return 'done';
    }, ttl: 3_000, wait: 5_000);
    check($got === 'done' && $free('php'), $got);
}
check($fences[1] > $fences[0], $fences);

throws(DomainException::class, fn () => $proxies->lock('php', fn () => throw new DomainException()));
check($free('php'));
throws(LockLost::class, fn () => $proxies->lock('php', function (int $fence, callable $check) use ($takeAway) {
    $takeAway('php');
    $check();
    check(false, 'went on without the lock');
}));
throws(LockLost::class, fn () => $proxies->lock('php', fn () => $takeAway('php')));
throws(LockLost::class, fn () => $proxies->lock('php', fn () => usleep(1_600_000), ttl: 1_500)); // nobody checked
throws(RedisException::class, fn () => $proxies->lock('php', fn () => check(false), ttl: 3_600_000));
check($free('php'));
echo 'phpredis ', phpversion('redis'), " all ok\n";
