<?php
// phpredis' own ways of working, with lock commands among them. Usage: client.php HOST PORT

function connect(): Redis
{
    global $argv;
    $r = new Redis();
    $r->connect($argv[1], (int) $argv[2], 20);
    return $r;
}

function check($ok, $got = null): void
{
    if (!$ok) {
        fwrite(STDERR, (new Exception('got ' . var_export($got, true)))->__toString() . "\n");
        exit(1);
    }
}

function lock(Redis $r, string $key, ...$options)
{
    return $r->rawCommand('LOCK', $key, '30s', ...$options);
}

function unlock(Redis $r, string $key, string $token): void
{
    check($r->rawCommand('UNLOCK', $key, $token) === 1, $r->getLastError());
}

$r = connect();
$token = lock($r, 'php');
check(strlen($token) === 57, $token);
check(lock($r, 'php') === false);
unlock($r, 'php', $token);
check($r->rawCommand('LOCK', 'php', 'x') === false && str_contains($r->getLastError(), 'invalid expire time'), $r->getLastError());
$r->clearLastError();

$readers = [lock($r, 'php', 'SHARED'), lock($r, 'php', 'SHARED')];
check(lock($r, 'php') === false);
foreach ($readers as $shared) {
    unlock($r, 'php', $shared);
}
$slots = [lock($r, 'php', 'LIMIT', 2, 'FULL'), lock($r, 'php', 'LIMIT', 2, 'FULL')];
check($slots[0][3] + $slots[1][3] === 1, $slots);
check(lock($r, 'php', 'LIMIT', 2) === false);
foreach ($slots as $full) {
    unlock($r, 'php', $full[0]);
}
$both = lock($r, 'php', 'KEYS', 1, 'php:other');
check(lock($r, 'php:other') === false);
check($r->rawCommand('UNLOCK', 'php', $both, 'KEYS', 1, 'php:other') === 1, $r->getLastError());
$token = lock($r, 'php');
check($r->rawCommand('EXTEND', 'php', $token, '30s', 'SHARED') === 1, $r->getLastError());
check($r->rawCommand('UNLOCK', 'php', $token, 'KEEP', '300ms') === 1, $r->getLastError());
unlock($r, 'php', lock($r, 'php', 'WAIT', '20s'));

$p = $r->pipeline();
for ($i = 0; $i < 50; $i++) {
    $p->set("php:$i", (string) $i);
    $p->rawCommand('LOCK', "php:$i", '30s');
    $p->get("php:$i");
}
$replies = $p->exec();
for ($i = 0; $i < 50; $i++) {
    check($replies[3 * $i] === true && $replies[3 * $i + 2] === (string) $i, $replies);
    unlock($r, "php:$i", $replies[3 * $i + 1]);
}

check($r->multi()->set('tx', '1')->incr('tx')->exec() === [true, 2]);
$r->multi();
$r->set('tx', 'lost');
check($r->rawCommand('LOCK', 'tx', '30s') === false && str_contains($r->getLastError(), 'not allowed in transactions'), $r->getLastError());
$r->close(); // after any error in MULTI phpredis 5.3 waits for ever in exec(), with Redis itself, too
$r = connect();
check($r->get('tx') === '2', $r->get('tx'));

check($r->eval('return {KEYS[1], ARGV[1]}', ['k', 'v'], 1) === ['k', 'v']);
for ($i = 0; $i < 1000; $i++) {
    $r->hSet('scanned', "f$i", (string) $i);
}
$found = 0;
$cursor = null;
while ($part = $r->hScan('scanned', $cursor)) {
    $found += count($part);
}
check($found === 1000, $found);

// No pub/sub here: in phpredis 5.3 subscribe has no way back, with Redis itself neither.
echo 'phpredis ', phpversion('redis'), " all ok\n";
