<?php
// Laravel's cache locks, from Debian's php-illuminate-cache. The protocol is in ../program_test.go;
// this program serves one client.

require_once 'Illuminate/Cache/autoload.php';
require_once 'Illuminate/Redis/autoload.php';

use Illuminate\Cache\RedisStore;
use Illuminate\Contracts\Cache\LockTimeoutException;
use Illuminate\Redis\RedisManager;

$store = $lock = null;

function run(array $request): bool
{
    global $store, $lock;
    switch ($request['op']) {
        case 'connect':
            [$host, $port] = explode(':', $request['addr']);
            $server = ['host' => $host, 'port' => (int) $port, 'database' => 0];
            if (isset($request['password'])) {
                $server['password'] = $request['password'];
            }
            $config = ['client' => 'phpredis', 'default' => $server];
            $store = new RedisStore(new RedisManager(null, 'phpredis', $config));
            return true;
        case 'close':
            $store->connection()->disconnect();
            return true;
        case 'acquire':
            $asked = $store->lock($request['key'], intdiv($request['ttl'], 1000))->betweenBlockedAttemptsSleepFor(20);
            if ($request['wait'] === 0) {
                $got = $asked->get();
            } else {
                try {
                    $got = $asked->block(intdiv($request['wait'], 1000));
                } catch (LockTimeoutException $e) {
                    $got = false;
                }
            }
            $lock = $got ? $asked : $lock;
            return $got;
        case 'release':
            return $lock->release();
        case 'force':
            $lock->forceRelease();
            return true;
        case 'add': // loses a count if another client is between the two commands
            $redis = $store->connection();
            $redis->set($request['key'], (int) $redis->get($request['key']) + 1);
            return true;
    }
    throw new InvalidArgumentException($request['op']);
}

while (($line = fgets(STDIN)) !== false) {
    $request = json_decode($line, true);
    $answer = ['id' => $request['id']];
    try {
        $answer['yes'] = run($request);
    } catch (Throwable $e) {
        $answer['error'] = get_class($e) . ': ' . $e->getMessage();
    }
    echo json_encode($answer), "\n";
    flush();
}
