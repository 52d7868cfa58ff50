package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"lockproxy/quorum"
)

// Liveness: if a majority of the masters is healthy, reachable and votes, a free key is granted.

const (
	calmFor  = 5 * time.Second // how long a majority must have been so: dead lanes have been noticed and replaced
	grantsIn = 2 * time.Second // how soon an Acquire must succeed then
	leastTry = 3               // and how many failures in this time are a fault
	noticeIn = 3 * time.Second // how soon records show a loss: a probe a second, and the way there and back
)

// prober takes locks that no other client wants, to see whether it gets them.
type prober struct {
	c     *simClient
	count int
	fails map[int]*failing // by serial of the proxy
}

// failing counts the grants that a proxy failed to make.
type failing struct {
	since time.Time
	count int
}

func newProber(w *world) *prober {
	c := &simClient{w: w, index: proberIndex, random: rand.New(rand.NewPCG(w.plan.seed, 97))}
	return &prober{c: c, fails: make(map[int]*failing)}
}

// proberIndex is the prober's number as a client.
const proberIndex = 900

func (p *prober) run() {
	for p.c.w.wait(p.c.moment(300 * time.Millisecond)) {
		if pr := p.c.w.proxyAt(p.c.random.IntN(len(p.c.w.places))); pr != nil {
			p.try(pr)
		}
	}
}

// try takes a fresh key once, and judges a failure.
func (p *prober) try(pr *simProxy) bool {
	p.count++
	plan := p.c.w.plan
	cl, err := p.c.ask(pr, quorum.Request{Key: fmt.Sprintf("live-%d", p.count), TTL: plan.clients.ttl[1]}, false)
	if err == nil {
		delete(p.fails, pr.serial)
		p.c.release(cl, pr)
		return true
	}
	calm, ok := p.c.w.calmSince(pr, plan.clients.ttl[1])
	if !ok || time.Since(calm) < calmFor || p.c.w.crashed(pr) {
		delete(p.fails, pr.serial)
		return false
	}
	f := p.fails[pr.serial]
	if f == nil {
		f = &failing{since: time.Now()}
		p.fails[pr.serial] = f
	}
	if f.count++; f.count >= leastTry && time.Since(f.since) > grantsIn {
		p.c.w.ledger.wrong(cl.keyOr(fmt.Sprintf("live-%d", p.count)),
			"nothing is granted: a majority has been healthy for %v, proxy %d has granted nothing for %v: %v",
			time.Since(calm), pr.serial, time.Since(f.since), err)
	}
	return false
}

// keyOr returns the key of a claim, or another without a claim.
func (c *claim) keyOr(other string) string {
	if c == nil {
		return other
	}
	return c.key
}

// calmSince is since when a majority of the masters has been such that an Acquire with ttl through
// the proxy must succeed; false if it is not so now.
func (w *world) calmSince(pr *simProxy, ttl time.Duration) (time.Time, bool) {
	w.net.mu.Lock()
	defer w.net.mu.Unlock()
	var since []time.Time
	for addr, m := range w.net.at {
		p := w.net.paths[pr.place][addr]
		if t, ok := m.calmLocked(p, w.plan); ok && w.plan.inTime(p, pr.place, ttl) {
			if pr.began.After(t) {
				t = pr.began
			}
			since = append(since, t)
		}
	}
	maj := majority(len(w.net.at))
	if len(since) < maj {
		return time.Time{}, false
	}
	slices.SortFunc(since, time.Time.Compare)
	return since[maj-1], true
}

// inTime reports whether the answers of a master come in time, by far.
func (p *plan) inTime(path *path, place int, ttl time.Duration) bool {
	round := 4 * path.base
	if p.traffic.places != nil {
		round = 2*path.base + path.base/5
	}
	if p.traffic.late > 0 {
		round += 2 * p.traffic.latest
	}
	return round+2*time.Millisecond < min(p.timeoutAt(place), attemptTime(ttl))
}

// calmLocked is since when the master has been healthy and voting, and reachable on the path.
func (m *simMaster) calmLocked(p *path, plan *plan) (since time.Time, ok bool) {
	if p.cuts[up]+p.cuts[down] > 0 || p.slow > 0 || m.paused || m.trouble != "" || m.Down() {
		return since, false
	}
	m.Set(func() {
		able := m.Denied == "" && len(m.Lacks) == 0 && !m.counterAheadLocked()
		ok = able && (plan.guard == quorum.GuardOff || m.admittedLocked())
		since = later(later(m.admitted, m.lost), later(m.disturbed, p.disturbed))
	})
	return since, ok
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// breaking is what may be wrong with a minority of the masters while the others must recover.
type breaking struct {
	name string
	away bool // its counters cannot be read
	do   func(w *world, addr int)
}

var breakings = []breaking{
	{"is down", true, func(w *world, addr int) { w.net.stopMaster(w.server(addr), false) }},
	{"is paused", true, func(w *world, addr int) { w.net.pauseMaster(w.server(addr)) }},
	{"is cut off", true, func(w *world, addr int) {
		w.net.each(-1, addr, func(p *path) { w.net.cut(p, up); w.net.cut(p, down) })
	}},
	{"cannot be written", false, func(w *world, addr int) { w.net.deny(w.server(addr), denials[addr%len(denials)]) }},
}

// recover: after the last fault, and with a minority that is broken, all proxies must grant again
// when everything that was lost has been waited for.
func (w *world) recover() {
	if !w.plan.recovers || w.ledger.fault != "" {
		return
	}
	random := rand.New(rand.NewPCG(w.plan.seed, 96))
	n := len(w.net.at)
	away := make(map[int]bool)
	for _, addr := range random.Perm(n)[:random.IntN(n-majority(n)+1)] {
		b := breakings[random.IntN(len(breakings))]
		w.trace.note(addr, "for the rest of the run: %s", b.name)
		b.do(w, addr)
		away[addr] = b.away
	}
	p := newProber(w)
	time.Sleep(w.own(noticeIn, 1000+proberIndex))
	stuck := w.waitsForCounters(away)
	for rest := 2*w.plan.quarantine() + 12*time.Second; rest > 0; rest -= time.Second {
		time.Sleep(w.own(time.Second, 1000+proberIndex))
		w.operate()
	}
	if stuck || w.plan.helpless {
		return // until a master is back, or an operator helps: by contract
	}
	for _, pr := range w.places {
		for tries := 0; !w.granting(p, pr); tries++ {
			if tries == 20 {
				w.ledger.wrong("", "nothing is granted: proxy %d does not recover: %v", pr.serial, pr.q.Masters())
				return
			}
		}
	}
}

// operator sends ADMIT for the masters that wait for it, with GuardStrict.
func (w *world) operator() {
	for w.wait(w.own(time.Second, 1000+proberIndex+1)) {
		w.operate()
	}
}

func (w *world) operate() {
	if w.plan.guard != quorum.GuardStrict {
		return
	}
	for place := range w.places {
		pr := w.proxyAt(place)
		if pr == nil || w.crashed(pr) {
			continue
		}
		for _, m := range pr.q.Masters() {
			if strings.Contains(m.Reason, "no master has kept its memory") {
				ctx, cancel := context.WithTimeout(context.Background(), time.Second)
				_ = pr.q.Admit(ctx, m.Name, true)
				cancel()
			}
		}
	}
}

// waitsForCounters reports whether masters that lost theirs need the counters of some that are
// away.
func (w *world) waitsForCounters(away map[int]bool) bool {
	here, gone := 0, 0
	for addr, m := range w.servers() {
		switch {
		case away[addr]:
			gone++
		case m.keptCounters():
			here++
		}
	}
	maj := majority(len(w.net.at))
	return here < maj && here+gone >= maj
}

// granting tries whether a proxy grants, if its timeouts let it.
func (w *world) granting(p *prober, pr *simProxy) bool {
	if pr == nil {
		return true
	}
	ttl, inTime := w.plan.clients.ttl[1], 0
	for addr := range w.net.at {
		if path := w.net.paths[pr.place][addr]; path.cuts[up]+path.cuts[down] == 0 &&
			w.plan.inTime(path, pr.place, ttl) {
			inTime++
		}
	}
	if inTime < len(w.net.at) {
		return true
	}
	time.Sleep(p.c.moment(50 * time.Millisecond))
	return p.try(pr)
}
