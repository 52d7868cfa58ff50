package main

import (
	"fmt"
	"time"
)

// besideWorkers are how many lock while others fetch large values.
var besideWorkers = []int{1, 64}

// besideLoad is the load of the other clients.
var besideLoad = loadOrder{Command: "get", Size: 1 << 20, Workers: 8}

// measureBeside measures LOCK beside clients that fetch large values through the same proxy.
// BENCH_BASE adds an older build for comparison.
func measureBeside(r *rig, out *report) error {
	subjects := besideSubjects(r.options)
	res := lockResults{}
	for round := range r.rounds {
		r.note("beside, round %d of %d", round+1, r.rounds)
		for turn := range subjects {
			if err := r.besideRound(subjects[(turn+round)%len(subjects)], res); err != nil {
				return err
			}
		}
	}
	reportBeside(out, res, subjects)
	return nil
}

func besideSubjects(o options) (list []lockSubject) {
	for _, s := range lockSubjects(o) {
		if s.name == "lockproxy" || s.name == "base" {
			list = append(list, s)
		}
	}
	return list
}

// besideRound measures one subject with each number of workers, on servers of its own.
func (r *rig) besideRound(s lockSubject, res lockResults) error {
	first := len(r.procs)
	defer func() { r.endFrom(first) }()
	list, err := r.lockServers([]lockSubject{s})
	if err != nil {
		return err
	}
	servers := list[0]
	for _, n := range besideWorkers {
		order := loadOrder{Way: s.way, Addrs: servers.addrs(), Workers: n, Span: r.span}
		got, err := r.beside(servers, order, s)
		if err != nil {
			return fmt.Errorf("%s, %d workers: %w", s.name, n, err)
		}
		res[lockKey{s.name, n}] = append(res[lockKey{s.name, n}], got)
	}
	return nil
}

// beside makes one measurement.
func (r *rig) beside(servers lockServers, order loadOrder, s lockSubject) (lockReading, error) {
	others := besideLoad
	others.Addrs, others.Span = order.Addrs, order.Span+time.Minute // it is ended below
	l, err := r.startLoad(others)
	if err != nil {
		return lockReading{}, err
	}
	defer l.stop()
	if err := l.await("ready"); err != nil {
		return lockReading{}, err
	}
	if err := l.begin(); err != nil {
		return lockReading{}, err
	}
	return r.lockRead(s, servers, order)
}

func reportBeside(out *report, res lockResults, subjects []lockSubject) {
	t := table{head: []string{"workers", "with", "LOCK median µs", "LOCK p99 µs", "pairs/s"}}
	for _, n := range besideWorkers {
		for _, s := range subjects {
			row := []string{fmt.Sprint(n), s.name}
			for _, pick := range []func(lockReading) float64{lockP50Of, lockP99Of, pairsOf} {
				row = append(row, res.series(s.name, n, pick).show(whole))
			}
			t.add(row...)
		}
	}
	out.section("Locks beside eight clients that fetch 1 MB values", t.String())
	if !res.has("lockproxy") || !res.has("base") {
		return
	}
	for _, n := range besideWorkers {
		tail := res.against("lockproxy", "base", n, lockP99Of)
		out.goal(fmt.Sprintf("LOCK p99 beside large values / base, %s", count(n, "worker")), "at most 1.00",
			tail.show(ratio), atMost(1, tail))
	}
}
