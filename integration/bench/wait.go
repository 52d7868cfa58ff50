package main

import (
	"fmt"
	"time"
)

// waitWorkers all want the same key.
const waitWorkers = 64

// measureWait passes one contended lock around.
func measureWait(r *rig, out *report) error {
	var subjects []lockSubject
	for _, s := range lockSubjects(r.options) {
		if s.way != "goredis" && s.masters == 0 {
			subjects = append(subjects, s)
		}
	}
	span := max(2*r.span, time.Second)
	res, err := r.lockRounds("wait", []int{waitWorkers}, subjects, loadOrder{Span: span, Contend: true})
	if err != nil {
		return err
	}
	reportWait(out, res, subjects, span)
	return nil
}

func reportWait(out *report, res lockResults, subjects []lockSubject, span time.Duration) {
	t := table{head: []string{"with", "hand-overs/s", "median µs", "p99 µs", "of a worker: fewest", "most",
		"most - fewest", "longest wait ms"}}
	for _, s := range subjects {
		row := []string{s.name}
		for _, pick := range []func(lockReading) float64{pairsOf, handP50Of, handP99Of, fewestOf, mostOf, spreadOf,
			longestOf} {
			row = append(row, res.series(s.name, waitWorkers, pick).show(whole))
		}
		t.add(row...)
	}
	out.section(fmt.Sprintf("Locks: one key, %d workers that wait", waitWorkers),
		fmt.Sprintf("`LOCK k %s WAIT %s`, UNLOCK at once, %v long; redsync tries again until it is granted, with its own delays. A hand-over is "+
			"from sending UNLOCK to the next holder's grant.\n", lockTTL, waitFor, span), t.String())
	if !res.has("lockproxy") {
		return
	}
	hand, spread := res.series("lockproxy", waitWorkers, handP50Of), res.series("lockproxy", waitWorkers, spreadOf)
	out.goal("hand-over of a contended key, median µs", "under 1000", hand.show(whole), atMost(999.9, hand))
	out.goal("hand-overs of a worker, most - fewest", "at most 2", spread.show(whole), atMost(2, spread))
}

func longestOf(r lockReading) float64 { return r.Longest / 1000 }
func handP50Of(r lockReading) float64 { return r.HandP50 }
func handP99Of(r lockReading) float64 { return r.HandP99 }
func fewestOf(r lockReading) float64  { return float64(r.Fewest) }
func mostOf(r lockReading) float64    { return float64(r.Most) }
func spreadOf(r lockReading) float64  { return float64(r.Most - r.Fewest) }
