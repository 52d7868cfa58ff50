package main

import (
	"fmt"
	"os"
	"slices"
	"time"
)

// loadWorkers are how many lock side by side, each a key of its own over a connection of its own.
var loadWorkers = []int{64, 256, 1024, 4096, 8000}

const (
	loadSettle     = time.Second
	burstClients   = 8000
	arrivalClients = 9000 // under max-clients
	arrivalFactor  = 1.5  // of the pairs a second of a closed loop
	capacityLoop   = 256  // workers of that loop: enough for the best rate, no overload
	besideSessions = 50
	besideHolders  = 20
	besideLoaders  = 4096
)

// loadSpan is how long the closed loop is measured; arrivals take fifteen times o.span, and
// holders ten times.
func loadSpan(o options) time.Duration { return max(o.span*3/2, 2*time.Second) }

// loadSubjects are the proxies and, for the closed loop, redsync.
func loadSubjects(o options) (all, proxies []lockSubject) {
	for _, s := range lockSubjects(o) {
		switch s.name {
		case "lockproxy", "base":
			all, proxies = append(all, s), append(proxies, s)
		case "redsync":
			all = append(all, s)
		}
	}
	return all, proxies
}

// measureLoad measures locks while clients ask for more than the masters can do. The closed loop
// runs once a round, the rest once.
func measureLoad(r *rig, out *report) error {
	all, proxies := loadSubjects(r.options)
	form := loadOrder{Span: loadSpan(r.options), Settle: loadSettle}
	res, err := r.lockRounds("load", loadWorkers, all, form)
	if err != nil {
		return err
	}
	reportLoad(out, res, all, form.Span)
	var readings []overloadReading
	for _, s := range proxies {
		got, err := r.overload(s)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		readings = append(readings, got)
	}
	reportOverload(out, r.options, readings)
	return nil
}

// rates are the pairs a second of each round.
func (res lockResults) rates(subject string, workers int) series {
	return res.series(subject, workers, pairsOf)
}

// best is the largest rate of each round, over all numbers of workers.
func (res lockResults) best(subject string) series {
	var best series
	for _, n := range loadWorkers {
		for i, rate := range res.rates(subject, n) {
			if i == len(best) {
				best = append(best, rate)
			}
			best[i] = max(best[i], rate)
		}
	}
	return best
}

// overloadReading holds the measurements of one proxy beside the closed loop.
type overloadReading struct {
	subject         string
	alone, spinning lockReading
	capacity        lockReading // a closed loop just before the arrivals
	arrivals        lockReading
	loaders         lockReading
	holders         loadResult
}

// overload measures bursts, arrivals and holders, each on servers of its own.
func (r *rig) overload(s lockSubject) (overloadReading, error) {
	got := overloadReading{subject: s.name}
	for _, part := range []struct {
		name    string
		measure func(lockSubject, lockServers, *overloadReading) error
	}{
		{"burst", func(s lockSubject, servers lockServers, got *overloadReading) (err error) {
			got.alone, err = r.burst(s, servers)
			return err
		}},
		{"burst beside busy processes", r.burstBesideSpinners},
		{"arrivals", r.arrivals},
		{"holders", r.holdersBesideLoad},
	} {
		r.note("load, %s: %s", s.name, part.name)
		first := len(r.procs)
		list, err := r.lockServers([]lockSubject{s})
		if err == nil {
			err = part.measure(s, list[0], &got)
		}
		r.endFrom(first)
		if err != nil {
			return got, fmt.Errorf("%s: %w", part.name, err)
		}
	}
	return got, nil
}

func (r *rig) burst(s lockSubject, servers lockServers) (lockReading, error) {
	return r.lockRead(s, servers, loadOrder{Way: s.way, Addrs: servers.addrs(), Workers: burstClients, Burst: true})
}

// burstBesideSpinners measures a burst beside two processes that compute all the time.
func (r *rig) burstBesideSpinners(s lockSubject, servers lockServers, got *overloadReading) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	for range 2 {
		if _, err := r.launch("spin", self, "spin"); err != nil {
			return err
		}
	}
	got.spinning, err = r.burst(s, servers)
	return err
}

// arrivals measures the capacity of the servers, then the pairs a second of arrivals above it.
func (r *rig) arrivals(s lockSubject, servers lockServers, got *overloadReading) (err error) {
	got.capacity, err = r.lockRead(s, servers, loadOrder{Way: s.way, Addrs: servers.addrs(),
		Workers: capacityLoop, Span: loadSpan(r.options), Settle: loadSettle})
	if err != nil {
		return err
	}
	got.arrivals, err = r.lockRead(s, servers, loadOrder{Way: s.way, Addrs: servers.addrs(),
		Workers: arrivalClients, Span: 15 * r.span, Rate: arrivalFactor * pairsOf(got.capacity)})
	return err
}

// holdersBesideLoad starts the holders, then the load, and lets both end at about the same time.
func (r *rig) holdersBesideLoad(s lockSubject, servers lockServers, got *overloadReading) error {
	order := loadOrder{Way: s.way, Addrs: servers.addrs(), Workers: besideLoaders, Span: 10 * r.span, Settle: loadSettle}
	hold := loadOrder{Addrs: order.Addrs, Sessions: besideSessions, Holders: besideHolders,
		Span: order.Settle + order.Span}
	h, err := r.startLoad(hold)
	if err != nil {
		return err
	}
	defer h.stop()
	if err := h.await("ready"); err != nil {
		return err
	}
	if err := h.begin(); err != nil {
		return err
	}
	if got.loaders, err = r.lockRead(s, servers, order); err != nil {
		return err
	}
	if err := h.await("done"); err != nil {
		return err
	}
	return h.decode(&got.holders)
}

// kindsOf is the text of the most frequent kinds of failures.
func kindsOf(kinds map[string]int, most int) string {
	type entry struct {
		kind string
		n    int
	}
	var list []entry
	for kind, n := range kinds {
		list = append(list, entry{kind, n})
	}
	slices.SortFunc(list, func(a, b entry) int { return b.n - a.n })
	text := ""
	for i, e := range list {
		if i == most {
			return text + fmt.Sprintf("; %s", count(len(list)-most, "more kind"))
		}
		if i > 0 {
			text += "; "
		}
		text += fmt.Sprintf("%d %s", e.n, e.kind)
	}
	return text
}
