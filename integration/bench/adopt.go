package main

import (
	"context"
	"fmt"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"
)

// adoptWorkers are how many lock side by side in the part of the lock listener.
var adoptWorkers = []int{1, 16, 64}

// adoptLimit is how much more than LOCK and UNLOCK a pair through the lock listener may cost.
const adoptLimit = 1.3

// adoptSubjects are a lock library and LOCK through one proxy. The goals compare with goredis,
// because redislock sends its scripts through the same client.
func adoptSubjects(o options) []lockSubject {
	return []lockSubject{
		{name: "redislock", way: "redislock", binary: o.lockproxy, adopts: "job-*",
			flags: []string{"--key-prefix", "adopt:"}},
		{name: "goredis", way: "goredis", through: "redislock"},
		{name: "plain", way: "plain", through: "redislock"},
	}
}

// measureAdopt compares an unmodified lock library on the lock listener with LOCK and UNLOCK.
func measureAdopt(r *rig, out *report) error {
	subjects := adoptSubjects(r.options)
	res, err := r.lockRounds("adopt", adoptWorkers, subjects, loadOrder{Span: r.span})
	if err != nil {
		return err
	}
	out.section("Lock listener: a pair through bsm/redislock beside LOCK and UNLOCK",
		"One proxy for all, 5 masters, a key a worker. redislock uses the lock listener; goredis (the client "+
			"that redislock uses) and plain send LOCK and UNLOCK. Processor time for each pair:\n",
		adoptFigures(res, subjects).String(),
		"Processor time for each pair, redislock / LOCK and UNLOCK:\n", adoptRatios(res).String())
	adoptVerdicts(out, res)
	return nil
}

// adoptCosts are the processor times of a pair, in the order of the tables. Those of the proxy and
// of all together have a goal.
var adoptCosts = []struct {
	whose   string
	pick    func(lockReading) float64
	limited bool
}{
	{"proxy", proxyPerPair, true},
	{"client", clientPerPair, false},
	{"masters", mastersPerPair, false},
	{"all", allPerPair, true},
}

func adoptFigures(res lockResults, subjects []lockSubject) *table {
	t := &table{head: []string{"workers", "with", "pairs/s", "lock median µs"}}
	for _, c := range adoptCosts {
		t.head = append(t.head, c.whose+" µs")
	}
	for _, n := range adoptWorkers {
		for _, s := range subjects {
			row := []string{fmt.Sprint(n), s.name, res.series(s.name, n, pairsOf).show(thousands),
				res.series(s.name, n, lockP50Of).show(whole)}
			for _, c := range adoptCosts {
				row = append(row, res.series(s.name, n, c.pick).show(tenth))
			}
			t.add(row...)
		}
	}
	return t
}

func adoptRatios(res lockResults) *table {
	t := &table{head: []string{"workers", "redislock /"}}
	for _, c := range adoptCosts {
		t.head = append(t.head, c.whose)
	}
	for _, n := range adoptWorkers {
		for _, to := range []string{"goredis", "plain"} {
			row := []string{fmt.Sprint(n), to}
			for _, c := range adoptCosts {
				row = append(row, res.against("redislock", to, n, c.pick).show(ratio))
			}
			t.add(row...)
		}
	}
	return t
}

// adoptVerdicts compares the results with the goal.
func adoptVerdicts(out *report, res lockResults) {
	for _, n := range adoptWorkers {
		for _, c := range adoptCosts {
			if !c.limited {
				continue
			}
			s := res.against("redislock", "goredis", n, c.pick)
			out.goal(fmt.Sprintf("processor time for a pair (%s), redislock / LOCK through go-redis, %s",
				c.whose, count(n, "worker")), fmt.Sprintf("at most %.1f", adoptLimit), s.show(ratio), atMost(adoptLimit, s))
		}
	}
}

// adopted is redislock, unmodified, on the lock listener.
type adopted struct {
	*redislock.Client
	held *redislock.Lock
}

func openRedislock(o loadOrder) ([]locker, error) {
	rdb := redis.NewClient(poolOptions(o.Addrs[0], o.Workers))
	var list []locker
	for range o.Workers {
		list = append(list, &adopted{Client: redislock.New(rdb)})
	}
	return list, nil
}

func (a *adopted) lock(ctx context.Context, key string) (err error) {
	a.held, err = a.Obtain(ctx, key, lockFor, nil)
	return err
}

func (a *adopted) unlock(ctx context.Context, _ string) error { return a.held.Release(ctx) }
