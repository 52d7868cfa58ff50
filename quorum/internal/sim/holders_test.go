package sim

import (
	"math/rand/v2"
	"time"
)

// Families of locks that many hold, or for long.

// otherSlots lets masters grant different slots of one lock, which its holders keep until the end.
// A master that has another slot than the lease must change it for the right one.
func (p *plan) otherSlots(r *rand.Rand) {
	p.slots(r)
	p.length, p.maxTTL, p.census, p.takes = 4*time.Second, time.Minute, true, true
	p.count, p.proxies = 4+r.IntN(8), 2
	p.clients.ttl, p.clients.forget = [2]time.Duration{p.maxTTL / 2, p.maxTTL}, 0.3
	p.clients.keys, p.clients.extend = 1+r.IntN(2), 0
	p.clients.kinds = kindsPlan{limited: 1, limit: 4 + r.IntN(12)}
	p.faults.kinds = nil
	if r.IntN(2) == 0 {
		p.faults.kinds = kindsOf("cut", "isolate a master")
	}
}

// mixed lets clients of all kinds fight for one key that they keep for a while.
func (p *plan) mixed(r *rand.Rand) {
	p.readers(r)
	p.clients.kinds = kindsPlan{shared: 0.4, limited: 0.4, limit: 1 + r.IntN(4), waits: some(r, 0.3)}
	p.clients.keys, p.mostHold = 1, between(r, 20*time.Millisecond, 300*time.Millisecond)
}

// oneEnd lets dozens hold a lock until the same instants, like EXPIREAT.
func (p *plan) oneEnd(r *rand.Rand) {
	p.length, p.count, p.masters = 4*time.Second, 50+r.IntN(30), 3
	p.maxTTL, p.mostHold, p.takes = 20*time.Second, time.Second, true
	grid := between(r, 500*time.Millisecond, 1500*time.Millisecond).Truncate(time.Millisecond)
	p.clients = clientPlan{keys: 1, ttl: [2]time.Duration{200 * time.Millisecond, time.Second}, grid: grid,
		stays: some(r, 0.1), think: 500 * time.Millisecond, extend: some(r, 0.4), forget: some(r, 1)}
	p.clients.kinds = kindsPlan{shared: 1}
	if r.IntN(2) == 0 {
		p.clients.kinds = kindsPlan{limited: 1, limit: 128}
	}
	p.faults.kinds = nil
}

// held keeps locks of all kinds for a while, which other proxies extend and give back.
func (p *plan) held(r *rand.Rand) {
	p.length, p.masters, p.count = 10*time.Second, 3+2*r.IntN(2), 6+r.IntN(6)
	p.maxTTL, p.mostHold = 20*time.Second, between(r, 300*time.Millisecond, 2*time.Second)
	p.clients = clientPlan{keys: 1 + r.IntN(3), ttl: [2]time.Duration{5 * time.Second, p.maxTTL},
		think: between(r, 10*time.Millisecond, 100*time.Millisecond), elsewere: some(r, 1), extend: some(r, 0.5),
		batch: some(r, 0.3)}
	p.clients.kinds.draw(r)
	p.clients.kinds.keep = 0 // how long is not known after an error
	p.traffic.late, p.traffic.latest = some(r, 0.2), between(r, 5*time.Millisecond, 150*time.Millisecond)
	p.faults.gap, p.faults.last = between(r, 100*time.Millisecond, time.Second), time.Second
	p.faults.kinds = [][]faultKind{nil, kindsOf("cut", "slow"), kindsOf("pause", "reset", "trouble")}[r.IntN(3)]
	p.takes = true
}

// raisedKeys hands out many numbers of several keys, with masters whose counters are apart.
func (p *plan) raisedKeys(r *rand.Rand) {
	p.fences(r)
	p.masters, p.clients.keys = 3+2*r.IntN(2), 2+r.IntN(2)
	p.clients.kinds = kindsPlan{several: 0.3 + 0.5*r.Float64()}
}

// rights are taken away and given back while locks of all kinds come and go.
func (p *plan) rights(r *rand.Rand) {
	p.length, p.masters, p.proxies, p.count = 12*time.Second, 3+2*r.IntN(2), 2, 5+r.IntN(4)
	p.maxTTL, p.mostHold = 3*time.Second, between(r, 2*time.Millisecond, 300*time.Millisecond)
	p.clients = clientPlan{keys: 1 + r.IntN(3), ttl: [2]time.Duration{p.maxTTL / 4, p.maxTTL},
		think:    between(r, 2*time.Millisecond, 50*time.Millisecond),
		elsewere: some(r, 1), extend: some(r, 0.6), forget: some(r, 0.1)}
	p.clients.kinds.draw(r)
	p.faults.gap, p.faults.last = between(r, 100*time.Millisecond, time.Second), between(r, 100*time.Millisecond,
		2*time.Second)
	p.faults.kinds = kindsOf("rights")
	if r.IntN(3) == 0 {
		p.faults.kinds = kindsOf("rights", "cut", "reset a master")
	}
	p.probes, p.recovers = true, r.IntN(2) == 0
	if r.IntN(2) == 0 {
		p.probes, p.recovers, p.census, p.maxTTL = false, false, true, time.Minute
		p.clients.ttl, p.clients.forget, p.clients.keys = [2]time.Duration{p.maxTTL / 2, p.maxTTL}, 0, 6
	}
}
