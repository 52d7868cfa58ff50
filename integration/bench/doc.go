// Command bench measures lockproxy and its alternatives: HAProxy (TCP mode) and twemproxy in
// front of a Redis, redsync and slock for locks. It also measures redislock on the lock listener.
// `sh integration/bench/run.sh` builds and runs it; its Markdown goes to standard output and, for
// a whole run, to RESULT.md.
//
// All run on this machine, on loopback, in turns: within a round each is measured once, the order
// moves on from round to round, and only the one in turn, its servers and the load are busy.
// Ratios are taken within a round, so that what disturbs a minute disturbs both sides; of ratios
// and of figures the median over the rounds is shown.
//
// Settings are variables of the environment:
//
//	BENCH_ONLY=relay,locks,wait,beside     parts to run: relay, cpu, locks, kinds, adopt (redislock on the lock
//	                                       listener), wait, load, beside, idle; default: all but cpu, which is
//	                                       the part of relay for tuning, and versions,
//	                                       which compares BENCH_BASE in slices of 80 ms
//	BENCH_QUICK=1                          one short round: the shape, not the figures
//	BENCH_ROUNDS=5 BENCH_SECONDS=2         rounds, and how long one measurement lasts (load: up to 15
//	                                       times that; the tables after its first run once)
//	BENCH_CASES=get64-p16,set16k           relay: only cases whose name contains one of these
//	BENCH_SUBJECTS=haproxy,lockproxy       only these of direct, haproxy, twemproxy, lockproxy, base, and for locks
//	                                       lockproxy-unfenced, lockproxy-one-thread, lockproxy-go-redis,
//	                                       redsync, slock, and beside its nodes lockproxy-three
//	BENCH_BASE=/path/to/another/lockproxy  an earlier build, measured beside the others as "base"
//	BENCH_SLOCK=/path/to/slock             for locks: what go build makes in a clone of
//	                                       github.com/snower/slock; left out if unset
//	BENCH_LOCKPROXY=/path/to/lockproxy     the build to measure; run.sh builds this tree if unset
//	BENCH_RESULT=/path/to/file.md          a file for the Markdown, besides standard output
package main
