package main

import "fmt"

// recipe says how the figures come about.
func recipe(r *rig) string {
	return fmt.Sprintf(recipeText, r.rounds, r.span, r.files, r.mostClients())
}

const recipeText = `## What is done

All servers, proxies and the load share one machine and its loopback interface. %[1]d rounds; in each round each subject is measured
once for about %[2]v in each case, in an order that moves on from case to case and from round to round; only the subject in turn, what
it needs and the load are busy. Proxies are started anew for each round. A cell is the median over the rounds with the smallest and
the largest; a ratio is taken within each round, of two measurements that are seconds apart.

- **Pass-through**: one redis-server that saves nothing, and before it HAProxy (` + "`mode tcp`, `nbthread 2`" + `), twemproxy (one server,
  otherwise its defaults) and lockproxy (its defaults, the Redis its only master). redis-benchmark with 50 clients, one key, values of
  64 B and 16 KB. After each measurement the Redis' own count of commands is compared with what was sent.
- **Latency**: one client, and eight beside idle connections, that block in the system and send a request when the last reply is
  there; redis-benchmark counts latencies in steps of 8 µs, too coarse here.
- **CPU**: what the threads of the proxy ran (/proc/PID/task/*/schedstat) while a measurement lasted, by the requests that were
  sent. **Memory**: VmHWM, forgotten before each measurement (/proc/PID/clear_refs).
- **Locks**: five redis-servers that save nothing, the same for all subjects, with another key prefix for each. Each worker takes and
  gives back the lock of a key of its own, ttl 10 s, over and over. lockproxy is driven by a plain connection a worker, as
  redis-benchmark would, and once through go-redis; unfenced is with ` + "`fencing: off`" + `,
  one-thread with ` + "`GOMAXPROCS=1`" + ` in its environment. redsync runs in the load's process over five go-redis clients with as many
  connections as there are workers, RESP2, no identification, no retries of single commands: the library's processor time is the
  client's.
- **slock**: its three nodes as a replica set; clients speak the protocol of Redis to the leader,
  and ask for the answer only when a majority of the nodes has the lock. lockproxy-three has as many
  masters. The leader stands in the proxy's columns, its followers in the masters'.
- **Kinds**: as locks, through one proxy for all kinds. KEYS takes and gives back four keys in one
  command each.
- **Lock listener**: as locks, through one proxy for all, with ` + "`adopt-keys: job-*`" + `. redislock runs
  unmodified over the same go-redis client as LOCK, with EVALSHA for each lock and each release.
- **One key**: 64 workers; lockproxy's wait in its line, redsync's try again after the delays that are its default (50 to 250 ms),
  without end. slock is left out. Grants are counted until the time is over.
- **Load**: as locks, with up to 8,000 workers that each have a connection of their own; the load is
  one process, whose goroutines wait in epoll. Pairs count if they are granted in the span; the times
  of LOCK are those of all that were granted after the first second, to the end. Bursts, arrivals and
  holders run once, on servers of their own.
- **Beside large values**: eight clients of the same proxy fetch a value of 1 MB, over and over, while
  others lock.
- **Idle**: connections from eight addresses of the loopback network, each with one PING answered. A process of this machine may
  open %[3]d files, so at most %[4]d clients through a proxy.

## To be fair

- Client, proxy and servers compete for the same cores. A proxy that costs less leaves more to the Redis and to redis-benchmark, so
  throughput says less about a proxy on a machine of its own than CPU per request does.
- Through lockproxy a LOCK goes over one more hop than through a library; in exchange 256 workers share one connection to each
  master, which answers them in batches. With one worker there is nothing to batch.
- redsync's WithFailFast(true) is not measured: under this load its releases overtake its last SETs, and after some thousand pairs
  keys that nobody gives back stand on a majority of masters for their ttl.
- lockproxy's pairs carry fencing numbers, redsync has none; the unfenced row compares like with like.
- twemproxy shares one connection to the Redis among all clients and reads every request; HAProxy knows nothing of Redis. Neither
  grants locks.

`
