package main

import (
	"fmt"
	"math"
	"slices"
)

// lockWorkers are how many lock side by side, each a key of its own.
var lockWorkers = []int{1, 16, 64, 256}

// measureLocks compares LOCK and UNLOCK of separate keys.
func measureLocks(r *rig, out *report) error {
	subjects := lockSubjects(r.options)
	res, err := r.lockRounds("locks", lockWorkers, subjects, loadOrder{Span: r.span})
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

// perPair are microseconds of processor time for each pair, NaN without pairs.
func perPair(pick func(lockReading) float64) func(lockReading) float64 {
	return ifPairs(func(r lockReading) float64 { return pick(r) / float64(r.Pairs) * 1e6 })
}

// ifPairs returns NaN for a reading without pairs: it has no such figure.
func ifPairs(pick func(lockReading) float64) func(lockReading) float64 {
	return func(r lockReading) float64 {
		if r.Pairs == 0 {
			return math.NaN()
		}
		return pick(r)
	}
}

var (
	proxyPerPair   = perPair(func(r lockReading) float64 { return r.proxy })
	clientPerPair  = perPair(func(r lockReading) float64 { return r.CPU })
	mastersPerPair = perPair(func(r lockReading) float64 { return r.masters })
	allPerPair     = perPair(func(r lockReading) float64 { return r.proxy + r.CPU + r.masters })
	failedPerMille = func(r lockReading) float64 { return float64(r.Failed) / float64(r.Failed+r.Pairs) * 1000 }
)

// pairsPerCPU is pairs per CPU second of what locks: the proxy, or the process that the library is
// part of.
func pairsPerCPU(r lockReading) float64 {
	if r.proxy > 0 {
		return float64(r.Pairs) / r.proxy
	}
	return float64(r.Pairs) / r.CPU
}

// pairsPerAllCPU is pairs per CPU second of all who have a part in them.
func pairsPerAllCPU(r lockReading) float64 { return float64(r.Pairs) / (r.proxy + r.CPU + r.masters) }

func reportLocks(out *report, res lockResults, subjects []lockSubject) {
	out.section("Locks: LOCK and UNLOCK, a key a worker, 5 masters",
		"Ratios:\n", lockRatios(res).String(), "Figures:\n", lockSpeed(res, subjects).String(),
		"Processor time for each pair:\n", lockCost(res, subjects).String())
	if res.has("lockproxy") && res.has("redsync") {
		lockGoals(out, res)
	}
	if res.has("lockproxy-three") && res.has("slock") {
		slockGoals(out, res)
	}
}

// against is one subject's ratios to another.
func (res lockResults) against(subject, to string, workers int, pick func(lockReading) float64) series {
	return res.series(subject, workers, pick).over(res.series(to, workers, pick))
}

func lockRatios(res lockResults) *table {
	t := &table{head: []string{"workers", "pairs/s, lockproxy / redsync", "pairs/s, fencing off / on",
		"LOCK median / redsync", "LOCK p99 / redsync"}}
	for _, n := range lockWorkers {
		ours := func(pick func(lockReading) float64) string {
			return res.against("lockproxy", "redsync", n, pick).show(ratio)
		}
		t.add(fmt.Sprint(n), ours(pairsOf), res.against("lockproxy-unfenced", "lockproxy", n, pairsOf).show(ratio),
			ours(lockP50Of), ours(lockP99Of))
	}
	return t
}

func lockSpeed(res lockResults, subjects []lockSubject) *table {
	t := &table{head: []string{"workers", "with", "pairs/s", "LOCK median µs", "LOCK p99 µs", "pair median µs",
		"pair p99 µs"}}
	for _, n := range lockWorkers {
		for _, s := range subjects {
			row := []string{fmt.Sprint(n), s.name, res.series(s.name, n, pairsOf).show(thousands)}
			for _, pick := range []func(lockReading) float64{lockP50Of, lockP99Of, pairP50Of, pairP99Of} {
				row = append(row, res.series(s.name, n, pick).show(whole))
			}
			t.add(row...)
		}
	}
	return t
}

func lockCost(res lockResults, subjects []lockSubject) *table {
	t := &table{head: []string{"workers", "with", "pairs per CPU second of proxy or library", "proxy µs", "client µs",
		"masters µs", "all µs",
		"proxy's peak MB", "failed per 1,000"}}
	for _, n := range lockWorkers {
		for _, s := range subjects {
			row := []string{fmt.Sprint(n), s.name, res.series(s.name, n, pairsPerCPU).show(thousands)}
			for _, pick := range []func(lockReading) float64{proxyPerPair, clientPerPair, mastersPerPair, allPerPair,
				peakMemory, failedPerMille} {
				row = append(row, res.series(s.name, n, pick).show(tenth))
			}
			t.add(row...)
		}
	}
	return t
}

func peakMemory(r lockReading) float64 { return mega(r.peak) }

// lockGoals compares the results with the goals.
func lockGoals(out *report, res lockResults) {
	for _, g := range []struct {
		workers    int
		rate, cost float64
	}{{64, 3.5, 3.5}, {256, 5, 5.5}} {
		rate := res.against("lockproxy", "redsync", g.workers, pairsOf)
		out.goal(fmt.Sprintf("lock pairs per second / redsync, %d workers", g.workers), fmt.Sprintf("at least %.1f", g.rate),
			rate.show(ratio), atLeast(g.rate, rate))
		cost := res.against("lockproxy", "redsync", g.workers, pairsPerAllCPU)
		out.goal(fmt.Sprintf("lock pairs per CPU second of everybody / redsync, %d workers", g.workers),
			fmt.Sprintf("at least %.1f", g.cost),
			cost.show(ratio), atLeast(g.cost, cost))
	}
	if res.has("lockproxy-unfenced") {
		s, t := res.against("lockproxy-unfenced", "lockproxy", 64, pairsOf),
			res.against("lockproxy-unfenced", "lockproxy", 256, pairsOf)
		out.goal("lock pairs per second, fencing off / on, 64 and 256 workers", "over 1.00",
			s.show(ratio)+"; "+t.show(ratio), atLeast(1, s, t))
	}
	median := res.against("lockproxy", "redsync", 1, lockP50Of)
	out.goal("LOCK median / redsync, 1 worker", "at most 0.80", median.show(ratio), atMost(0.8, median))
	for _, n := range lockWorkers {
		tail := res.against("lockproxy", "redsync", n, lockP99Of)
		out.goal(fmt.Sprintf("LOCK p99 / redsync, %s", count(n, "worker")), "under 1.00", tail.show(ratio),
			atMost(0.999, tail))
	}
	each := res.series("lockproxy", 64, mastersPerPair).over(slices.Repeat(series{numMasters},
		len(res[lockKey{"lockproxy", 64}])))
	out.goal("processor time of a master for a pair, 64 workers, µs", "at most 6", each.show(tenth), atMost(6, each))
}

// slockGoals compares the results with a lock server whose nodes acknowledge the leader's grants.
func slockGoals(out *report, res lockResults) {
	for _, g := range []struct {
		workers int
		limit   float64
	}{{1, 0.7}, {64, 1}, {256, 1}} {
		s := res.against("lockproxy-three", "slock", g.workers, pairsOf)
		out.goal(fmt.Sprintf("lock pairs per second / slock, three masters, %s", count(g.workers, "worker")),
			fmt.Sprintf("at least %.1f", g.limit),
			s.show(ratio), atLeast(g.limit, s))
	}
}
