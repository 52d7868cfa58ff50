package main

import (
	"fmt"
	"time"
)

// lockWorkers are how many lock side by side, each a key of its own.
var lockWorkers = []int{1, 16, 64, 256}

// measureLocks compares LOCK and UNLOCK of separate keys.
func measureLocks(r *rig, out *report) error {
	subjects := lockSubjects(r.options)
	res, err := r.lockRounds("locks", lockWorkers, subjects, false, r.span)
	if err != nil {
		return err
	}
	reportLocks(out, res, subjects)
	return nil
}

// Figures of a reading.
func pairsOf(r lockReading) float64   { return float64(r.Pairs) / r.Seconds }
func lockP50Of(r lockReading) float64 { return r.LockP50 }
func lockP99Of(r lockReading) float64 { return r.LockP99 }
func pairP50Of(r lockReading) float64 { return r.PairP50 }
func pairP99Of(r lockReading) float64 { return r.PairP99 }

// perPair are microseconds of processor time for each pair.
func perPair(pick func(lockReading) float64) func(lockReading) float64 {
	return func(r lockReading) float64 { return pick(r) / float64(r.Pairs) * 1e6 }
}

var (
	proxyPerPair   = perPair(func(r lockReading) float64 { return r.proxy })
	clientPerPair  = perPair(func(r lockReading) float64 { return r.CPU })
	mastersPerPair = perPair(func(r lockReading) float64 { return r.masters })
	failedPerMille = func(r lockReading) float64 { return float64(r.Failed) / float64(r.Failed+r.Pairs) * 1000 }
)

// pairsPerCPU is pairs per CPU second of what locks: the proxy, or the process that the library is part of.
func pairsPerCPU(r lockReading) float64 {
	if r.proxy > 0 {
		return float64(r.Pairs) / r.proxy
	}
	return float64(r.Pairs) / r.CPU
}

func reportLocks(out *report, res lockResults, subjects []lockSubject) {
	ratios := table{head: []string{"workers", "pairs/s, lockproxy / redsync", "pairs/s, fencing off / on", "LOCK median / redsync", "LOCK p99 / redsync"}}
	against := func(subject, to string, n int, pick func(lockReading) float64) series {
		return res.series(subject, n, pick).over(res.series(to, n, pick))
	}
	for _, n := range lockWorkers {
		ratios.add(fmt.Sprint(n), against("lockproxy", "redsync", n, pairsOf).show(ratio),
			against("lockproxy, no fencing", "lockproxy", n, pairsOf).show(ratio), against("lockproxy", "redsync", n, lockP50Of).show(ratio),
			against("lockproxy", "redsync", n, lockP99Of).show(ratio))
	}
	speed := table{head: []string{"workers", "with", "pairs/s", "LOCK median µs", "LOCK p99 µs", "pair median µs", "pair p99 µs"}}
	cost := table{head: []string{"workers", "with", "pairs per CPU second of proxy or library", "proxy µs", "client µs", "masters µs", "proxy's peak MB", "failed per 1,000"}}
	for _, n := range lockWorkers {
		for _, s := range subjects {
			get := func(pick func(lockReading) float64) series { return res.series(s.name, n, pick) }
			speed.add(fmt.Sprint(n), s.name, get(pairsOf).show(thousands), get(lockP50Of).show(whole), get(lockP99Of).show(whole),
				get(pairP50Of).show(whole), get(pairP99Of).show(whole))
			peak := get(func(r lockReading) float64 { return mega(r.peak) }).show(tenth)
			if s.binary == "" {
				peak = "-"
			}
			cost.add(fmt.Sprint(n), s.name, get(pairsPerCPU).show(thousands), get(proxyPerPair).show(tenth), get(clientPerPair).show(tenth),
				get(mastersPerPair).show(tenth), peak, get(failedPerMille).show(tenth))
		}
	}
	out.section("Locks: LOCK and UNLOCK, a key a worker, 5 masters",
		"Pairs per second and latency, ratios:\n", ratios.String(), "Figures:\n", speed.String(), "Processor time for each pair:\n", cost.String())
	if !res.has("lockproxy") || !res.has("redsync") {
		return
	}
	for _, g := range []struct {
		workers int
		limit   float64
	}{{64, 4}, {256, 5}} {
		s := against("lockproxy", "redsync", g.workers, pairsOf)
		out.goals = append(out.goals, goal{fmt.Sprintf("lock pairs per second / redsync, %d workers", g.workers),
			fmt.Sprintf("at least %.0f", g.limit), s.show(ratio), atLeast(g.limit, s)})
	}
	if res.has("lockproxy, no fencing") {
		s, t := against("lockproxy, no fencing", "lockproxy", 64, pairsOf), against("lockproxy, no fencing", "lockproxy", 256, pairsOf)
		out.goals = append(out.goals, goal{"lock pairs per second, fencing off / on, 64 and 256 workers", "over 1.00", s.show(ratio) + "; " + t.show(ratio), atLeast(1, s, t)})
	}
	median, tail := against("lockproxy", "redsync", 1, lockP50Of), against("lockproxy", "redsync", 1, lockP99Of)
	out.goals = append(out.goals,
		goal{"LOCK median / redsync, 1 worker", "at most 1.20", median.show(ratio), atMost(1.2, median)},
		goal{"LOCK p99 / redsync, 1 worker", "at most 1.00", tail.show(ratio), atMost(1, tail)})
}

// waitWorkers all want the same key.
const waitWorkers = 64

// measureWait passes one contended lock around.
func measureWait(r *rig, out *report) error {
	var subjects []lockSubject
	for _, s := range lockSubjects(r.options) {
		if s.way == "plain" || s.way == "redsync" {
			subjects = append(subjects, s)
		}
	}
	span := max(2*r.span, time.Second)
	res, err := r.lockRounds("wait", []int{waitWorkers}, subjects, true, span)
	if err != nil {
		return err
	}
	t := table{head: []string{"with", "hand-overs/s", "median µs", "p99 µs", "of a worker: fewest", "most", "most - fewest", "longest wait ms"}}
	for _, s := range subjects {
		get := func(pick func(lockReading) float64) series { return res.series(s.name, waitWorkers, pick) }
		t.add(s.name, get(pairsOf).show(whole), get(handP50Of).show(whole), get(handP99Of).show(whole), get(fewestOf).show(whole),
			get(mostOf).show(whole), get(spreadOf).show(whole), get(func(r lockReading) float64 { return r.Longest / 1000 }).show(whole))
	}
	out.section(fmt.Sprintf("Locks: one key, %d workers that wait", waitWorkers),
		fmt.Sprintf("`LOCK k %s WAIT %s`, UNLOCK at once, %v long; redsync tries again until it is granted, with its own delays. A hand-over is from sending UNLOCK to the next holder's grant.\n", lockTTL, waitFor, span), t.String())
	if res.has("lockproxy") {
		hand, spread := res.series("lockproxy", waitWorkers, handP50Of), res.series("lockproxy", waitWorkers, spreadOf)
		out.goals = append(out.goals,
			goal{"hand-over of a contended key, median µs", "under 1000", hand.show(whole), atMost(999.9, hand)},
			goal{"hand-overs of a worker, most - fewest", "at most 2", spread.show(whole), atMost(2, spread)})
	}
	return nil
}

func handP50Of(r lockReading) float64 { return r.HandP50 }
func handP99Of(r lockReading) float64 { return r.HandP99 }
func fewestOf(r lockReading) float64  { return float64(r.Fewest) }
func mostOf(r lockReading) float64    { return float64(r.Most) }
func spreadOf(r lockReading) float64  { return float64(r.Most - r.Fewest) }
