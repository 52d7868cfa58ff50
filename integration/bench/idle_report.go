package main

import (
	"fmt"
	"strings"
)

// Figures of a reading.
func residentOf(r idleReading) float64   { return r.resident }
func residentMBOf(r idleReading) float64 { return mega(r.resident) }
func kernelOf(r idleReading) float64     { return r.kernel }
func idleRateOf(r idleReading) float64   { return r.rate }
func idleP50Of(r idleReading) float64    { return micros(r.p50) }
func idleP99Of(r idleReading) float64    { return micros(r.p99) }

// slower is how the active clients' median with n idle connections compares with none.
func (res idleResults) slower(subject string, n int) series {
	return res.series(subject, n, idleP50Of).over(res.series(subject, 0, idleP50Of))
}

func reportIdle(out *report, res idleResults, subjects []relaySubject, counts []int) {
	t := table{head: []string{"idle connections", "through", "resident MB", "KB each", "kernel's KB each",
		"8 active: requests/s", "median µs", "p99 µs", "median / none idle"}}
	for _, n := range counts {
		for _, s := range subjects {
			memory, each, system := "-", "-", "-"
			if n > 1 { // the growth of a single one is lost in the noise
				system = res.each(s.name, n, kernelOf).show(tenth)
			}
			if s.name != "direct" {
				memory = res.series(s.name, n, residentMBOf).show(tenth)
			}
			if s.name != "direct" && n > 1 {
				each = res.each(s.name, n, residentOf).show(tenth)
			}
			t.add(fmt.Sprint(n), s.name, memory, each, system, res.series(s.name, n, idleRateOf).show(thousands),
				res.series(s.name, n, idleP50Of).show(tenth), res.series(s.name, n, idleP99Of).show(whole),
				res.slower(s.name, n).show(ratio))
		}
	}
	out.section("Idle connections",
		"Each has sent one PING, so that a proxy holds two connections for it; KB each is the proxy's resident memory for both. The kernel's "+
			"part (slab) is the whole machine's: both ends of each connection, four ends with a proxy and two without.\n",
		t.String())
	idleGoals(out, res, subjects, counts[len(counts)-1])
}

func idleGoals(out *report, res idleResults, subjects []relaySubject, most int) {
	each, slower := res.each("lockproxy", most, residentOf), res.slower("lockproxy", most)
	if len(each) == 0 {
		return
	}
	shown := []string{slower.show(ratio)}
	for _, s := range subjects {
		if s.name != "lockproxy" {
			shown = append(shown, s.name+" "+ratio(res.slower(s.name, most).median()))
		}
	}
	out.goal(fmt.Sprintf("KB for an idle connection, both sides, at %d", most), "at most 24", each.show(tenth),
		atMost(24, each))
	out.goal(fmt.Sprintf("median latency of 8 active clients, %d idle / none", most), "at most 1.10",
		strings.Join(shown, "; "), atMost(1.1, slower))
}
