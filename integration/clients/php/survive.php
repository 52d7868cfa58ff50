<?php
// lock.php while proxies and masters die. Usage: survive.php count|hold NAME FOLDER ADDRESS...
//
// count adds 1 to the file counter under a lock until there is a file stop, and writes how often it
// did so. hold keeps a lock until it is lost. The test reads the files and the last line.

require __DIR__ . '/recipes/lock.php';

[, $role, $name, $folder] = $argv;
$proxies = new LockProxies(array_slice($argv, 4));

function count_on(LockProxies $proxies, string $name, string $folder): void
{
    $done = 0;
    while (!file_exists("$folder/stop")) {
        try {
            $proxies->lock('counter', function (int $fence, callable $check) use ($folder, $name, &$done) {
                $n = (int) file_get_contents("$folder/counter");
                usleep(5_000);
                $check();
                file_put_contents("$folder/counter", (string) ($n + 1));
                file_put_contents("$folder/done.$name", (string) ++$done);
            }, ttl: 2_000, wait: 15_000);
        } catch (LockTaken | LockLost $e) {
            echo get_class($e), ' ', $e->getMessage(), "\n";
        }
        usleep(20_000);
    }
}

function hold(LockProxies $proxies, string $name, string $folder): void
{
    try {
        $proxies->lock("hold:$name", function (int $fence, callable $check) use ($folder, $name) {
            file_put_contents("$folder/held.$name", (string) $fence);
            while (true) {
                usleep(100_000);
                $check();
            }
        }, ttl: 20_000, wait: 5_000);
    } catch (LockLost $e) {
        if (!str_contains($e->getMessage(), "hold:$name")) {
            throw $e;
        }
    }
}

$role === 'count' ? count_on($proxies, $name, $folder) : hold($proxies, $name, $folder);
echo "all ok\n";
