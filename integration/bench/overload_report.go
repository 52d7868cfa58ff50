package main

import (
	"fmt"
	"time"
)

var (
	failedOf  = func(r lockReading) float64 { return float64(r.Failed) }
	lockP50Ms = ifPairs(func(r lockReading) float64 { return r.LockP50 / 1000 })
	lockP99Ms = ifPairs(func(r lockReading) float64 { return r.LockP99 / 1000 })
)

func reportLoad(out *report, res lockResults, subjects []lockSubject, span time.Duration) {
	t := table{head: []string{"workers", "with", "pairs/s", "of its best", "errors", "kinds of errors", "LOCK median ms",
		"LOCK p99 ms", "client µs a pair"}}
	for _, n := range loadWorkers {
		for _, s := range subjects {
			kinds := map[string]int{}
			for _, reading := range res[lockKey{s.name, n}] {
				for kind, n := range reading.Kinds {
					kinds[kind] += n
				}
			}
			rates := res.rates(s.name, n)
			t.add(fmt.Sprint(n), s.name, rates.show(whole), rates.over(res.best(s.name)).show(ratio),
				res.series(s.name, n, failedOf).show(whole), kindsOf(kinds, 3),
				res.series(s.name, n, lockP50Ms).show(tenth), res.series(s.name, n, lockP99Ms).show(tenth),
				res.series(s.name, n, clientPerPair).show(whole))
		}
	}
	text := fmt.Sprintf("LOCK and UNLOCK of uncontended keys in a closed loop, each worker with a key and a connection of its own, "+
		"%d masters; %v, after %v. redsync's workers share at most %d connections to each master.\n",
		numMasters, span, loadSettle, redsyncConns)
	body := []string{text, t.String()}
	if res.has("lockproxy") {
		body = append(body, loadGoals(out, res))
	}
	out.section("Load: more workers than can be served at once", body...)
}

// loadGoals compares with the acceptance, and returns the line below the table.
func loadGoals(out *report, res lockResults) string {
	best := res.best("lockproxy")
	var shares []series
	errors, shown := 0., ""
	for _, n := range loadWorkers {
		for _, failed := range res.series("lockproxy", n, failedOf) {
			errors += failed
		}
		if n >= 1024 {
			share := res.rates("lockproxy", n).over(best)
			shares = append(shares, share)
			shown += fmt.Sprintf("%d: %s; ", n, share.show(ratio))
		}
	}
	most := loadWorkers[len(loadWorkers)-1]
	var fair series // the p99 of workers that are served in turn at the best rate, in ms
	for _, rate := range best {
		fair = append(fair, float64(most)/rate*1000)
	}
	tail := res.series("lockproxy", most, lockP99Ms).over(fair)
	rate, none, late := atLeast(0.8, shares...), atMost(0, series{errors}), atMost(3, tail)
	out.goal("load: pairs per second / the best, 1,024 workers and more", "at least 0.80", shown[:len(shown)-2], rate)
	out.goal("load: errors, all numbers of workers", "0", whole(errors), none)
	out.goal(fmt.Sprintf("load: LOCK p99 with %d workers / %d pairs at the best rate", most, most), "at most 3.00",
		tail.show(ratio), late)
	return fmt.Sprintf("Accepted if with 1,024 workers and more pairs/s are at least 0.8 of the best (%s), there is no error (%s), "+
		"and LOCK's p99 with %d workers is at most three times %d / best rate (%s).\n", rate, none, most, most, late)
}

func reportOverload(out *report, o options, list []overloadReading) {
	if len(list) == 0 {
		return
	}
	reportBursts(out, list)
	reportArrivals(out, o, list)
	reportHolders(out, list)
}

func reportBursts(out *report, list []overloadReading) {
	t := table{head: []string{"with", "beside", "tokens", "errors", "kinds of errors", "ms until the last answer"}}
	for _, got := range list {
		for _, row := range []struct {
			beside  string
			reading lockReading
		}{{"nothing", got.alone}, {"two processes that compute", got.spinning}} {
			r := row.reading
			t.add(got.subject, row.beside, fmt.Sprint(r.Pairs), fmt.Sprint(r.Failed), kindsOf(r.Kinds, 3), whole(r.Last/1000))
		}
		if got.subject == "lockproxy" {
			tokens := series{float64(min(got.alone.Pairs, got.spinning.Pairs))}
			out.goal("load: tokens of 8,000 LOCKs at one instant", "8000", tokens.show(whole), atLeast(burstClients, tokens))
		}
	}
	out.section(fmt.Sprintf("Load: %d LOCKs at one instant, a connection each", burstClients), t.String())
}

func reportArrivals(out *report, o options, list []overloadReading) {
	t := table{head: []string{"with", "capacity, pairs/s", "LOCKs/s", "pairs/s", "of the capacity", "not sent/s",
		"other answers", "LOCK median ms", "LOCK p99 ms",
		"median µs of one worker before", "1 s after"}}
	for _, got := range list {
		r := got.arrivals
		capacity := pairsOf(got.capacity)
		share := pairsOf(r) / capacity
		t.add(got.subject, whole(capacity), whole(arrivalFactor*capacity), whole(pairsOf(r)), ratio(share),
			whole(float64(r.Unsent)/r.Seconds),
			kindsOf(r.Kinds, 5), tenth(r.LockP50/1000), tenth(r.LockP99/1000), whole(r.Before), whole(r.After))
		if got.subject == "lockproxy" {
			out.goal("load: pairs per second at 1.5 times the capacity / the capacity", "at least 0.80", ratio(share),
				atLeast(0.8, series{share}))
			after := series{r.After / r.Before}
			out.goal("load: LOCK median of one worker, 1 s after / before", "at most 2.00", after.show(ratio), atMost(2, after))
		}
	}
	out.section(fmt.Sprintf("Load: LOCKs at %.1f times the capacity, for %v", arrivalFactor, 15*o.span),
		fmt.Sprintf("The capacity is that of %d workers in a closed loop just before. LOCKs go over %d connections; "+
			"one for which none is idle is not sent.\n", capacityLoop, arrivalClients), t.String())
}

func reportHolders(out *report, list []overloadReading) {
	t := table{head: []string{"with", "pairs/s of the workers", "their errors", "session locks lost", "EXTENDs",
		"answered 1", "other answers", "slowest ms"}}
	for _, got := range list {
		h := got.holders
		t.add(got.subject, whole(pairsOf(got.loaders)), fmt.Sprint(got.loaders.Failed),
			fmt.Sprintf("%d of %d", h.Lost, besideSessions),
			fmt.Sprint(h.Extends), fmt.Sprint(h.Extends-h.Failed), kindsOf(h.Kinds, 3), whole(h.Slowest/1000))
		if got.subject == "lockproxy" {
			bad := series{float64(h.Lost + h.Failed)}
			out.goal("load: session locks lost and EXTENDs refused beside 4,096 workers", "0", bad.show(whole), atMost(0, bad))
		}
	}
	out.section(fmt.Sprintf("Load: %d session locks (%s) and %d holders that extend every %v, beside %d workers",
		besideSessions, sessionTTL, besideHolders, extendEvery, besideLoaders), t.String())
}
