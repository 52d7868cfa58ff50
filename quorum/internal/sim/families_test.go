package sim

import (
	"math/rand/v2"
	"os"
	"time"

	"lockproxy/quorum"
)

// family is a kind of run that noise hardly ever makes: the coincidence that a certain fault
// needs is likely in it.
type family struct {
	name  string
	share float64 // of all runs
	shape func(p *plan, r *rand.Rand)
}

// families are all of them. The other runs are noise.
var families = []family{
	{"fences", 0.06, (*plan).fences},
	{"tokens", 0.04, (*plan).tokens},
	{"counters", 0.04, (*plan).countersInTurn},
	{"raises", 0.05, (*plan).raisesAcrossLosses},
	{"newcomers", 0.03, (*plan).newcomers},
	{"losses", 0.04, (*plan).losses},
	{"steps", 0.04, (*plan).steps},
	{"returns", 0.04, (*plan).returns},
	{"evictions", 0.03, (*plan).evictions},
	{"floors", 0.03, (*plan).floors},
	{"far clocks", 0.02, (*plan).farClocks},
	{"fast clocks", 0.02, (*plan).fastClocks},
	{"drift", 0.01, (*plan).drift},
	{"load", 0.03, (*plan).quietLoad},
	{"away", 0.03, (*plan).awayLoad},
	{"first start", 0.03, (*plan).firstStart},
	{"silence", 0.02, (*plan).silence},
	{"unlocks", 0.03, (*plan).unlocks},
	{"extended", 0.02, (*plan).extended},
	{"scripts", 0.02, (*plan).scripts},
	{"readers", 0.05, (*plan).readers},
	{"slots", 0.05, (*plan).slots},
	{"several keys", 0.03, (*plan).severalKeys},
	{"kept", 0.02, (*plan).keptKeys},
	{"starved", 0.02, (*plan).starved},
	{"cut off", 0.02, (*plan).cutOff},
	{"late grants", 0.02, (*plan).lateGrants},
	{"overload", 0.03, (*plan).overload},
	{"other slots", 0.02, (*plan).otherSlots},
	{"confirmed slots", 0.02, (*plan).confirmedSlots},
	{"mixed", 0.01, (*plan).mixed},
	{"one end", 0.01, (*plan).oneEnd},
	{"held", 0.02, (*plan).held},
	{"raised keys", 0.02, (*plan).raisedKeys},
	{"rights", 0.02, (*plan).rights},
	{"adopted", 0.05, (*plan).adopted},
}

// join makes p a run of some family, or leaves it as it is.
func (p *plan) join(r *rand.Rand) {
	at, only := r.Float64(), os.Getenv("QUORUM_FAMILY")
	for _, f := range families {
		if at -= f.share; at < 0 && only == "" || only == f.name {
			p.family = f.name
			p.quiet(r)
			f.shape(p, r)
			p.everywhere()
			p.certainClocks(r)
			return
		}
	}
}

// quiet takes all noise out of p.
func (p *plan) quiet(r *rand.Rand) {
	p.length, p.masters, p.proxies, p.count = 6*time.Second, 3, 2, 2
	p.maxTTL, p.masterTimeout, p.mostHold = 2*time.Second, 40*time.Millisecond, 5*time.Millisecond
	p.fencing, p.guard, p.wipes, p.stagger, p.census = true, quorum.GuardOn, false, 0, false
	p.timeouts, p.denied, p.probes, p.recovers, p.counted, p.fight, p.takes = nil, nil, false, false, false, false, false
	p.load = loadPlan{}
	p.loops = []bool{r.IntN(2) == 0, r.IntN(2) == 0, r.IntN(2) == 0, r.IntN(2) == 0}
	p.clients = clientPlan{keys: 1, ttl: [2]time.Duration{p.maxTTL / 2, p.maxTTL},
		think: between(r, 5*time.Millisecond, 30*time.Millisecond)}
	p.traffic = trafficPlan{base: [2]time.Duration{50 * time.Microsecond, 300 * time.Microsecond}}
	p.faults = faultPlan{gap: 100 * time.Millisecond, first: 200 * time.Millisecond, last: 300 * time.Millisecond}
}

// everywhere makes the lists that have an entry for every master.
func (p *plan) everywhere() {
	p.durable, p.rates, p.ahead = nil, nil, nil
	for range p.masters + spares {
		p.durable, p.rates, p.ahead = append(p.durable, false), append(p.rates, 1), append(p.ahead, 0)
	}
}

// fences hands out many numbers of one key in a short time, with masters whose counters are apart
// and messages that are late: the second round of fencing has to run, and is overtaken by the next
// holder.
func (p *plan) fences(r *rand.Rand) {
	p.length = between(r, 2*time.Second, 5*time.Second)
	p.masters, p.proxies, p.count = 5, 3, 3+r.IntN(2)
	p.maxTTL, p.masterTimeout, p.mostHold = 20*time.Second, between(r, 40*time.Millisecond, 200*time.Millisecond),
		2*time.Millisecond
	p.clients = clientPlan{
		keys: 1, ttl: [2]time.Duration{5 * time.Second, p.maxTTL},
		think:    between(r, time.Millisecond, 10*time.Millisecond),
		elsewere: 0.3 + 0.7*r.Float64(),
	}
	p.traffic.late, p.traffic.latest = 0.02+0.2*r.Float64(), between(r, 5*time.Millisecond, 60*time.Millisecond)
	p.faults.kinds = kindsOf("trouble", "isolate a master", "cut")
}

// tokens lets several fight for a lock that its holder keeps, while masters refuse single
// commands: releases have to be repeated, and meet later keys.
func (p *plan) tokens(r *rand.Rand) {
	p.masters, p.proxies, p.count = 3+2*r.IntN(2), 2+r.IntN(2), 4+r.IntN(3)
	p.maxTTL, p.mostHold = 5*time.Second, between(r, 500*time.Millisecond, 3*time.Second)
	p.clients = clientPlan{keys: 1, ttl: [2]time.Duration{2 * time.Second, p.maxTTL},
		think: between(r, 5*time.Millisecond, 40*time.Millisecond)}
	p.faults.gap, p.faults.last = between(r, 20*time.Millisecond, 200*time.Millisecond),
		between(r, 50*time.Millisecond, 600*time.Millisecond)
	p.faults.kinds = kindsOf("trouble")
}

// kindsOf are the faults with those names.
func kindsOf(names ...string) (kinds []faultKind) {
	for _, name := range names {
		for _, k := range faultKinds {
			if k.name == name {
				kinds = append(kinds, k)
			}
		}
	}
	return kinds
}

// scripted makes all faults those of one story, which happens again and again; it loses memory.
func (p *plan) scripted(name string, do func(*faulter)) {
	p.faults.gap, p.faults.kinds = 20*time.Millisecond, []faultKind{{name: name, forgets: true, loses: true, do: do}}
}

// countersInTurn empties one master after another, while others do not answer: the numbers must go
// on rising.
func (p *plan) countersInTurn(r *rand.Rand) {
	p.length, p.maxTTL, p.count = 10*time.Second, between(r, 200*time.Millisecond, time.Second), 2+r.IntN(2)
	p.clients.ttl, p.clients.keys = [2]time.Duration{p.maxTTL / 2, p.maxTTL}, 1+r.IntN(2)
	p.scripted("masters forget in turn", (*faulter).forgetInTurn)
}

// raisesAcrossLosses empties a master while the second round of fencing that it began is still on
// its way.
func (p *plan) raisesAcrossLosses(r *rand.Rand) {
	p.maxTTL, p.count, p.masterTimeout = time.Second, 4, 50*time.Millisecond
	p.clients.ttl = [2]time.Duration{9 * p.maxTTL / 10, p.maxTTL}
	p.scripted("a master forgets during a raise", (*faulter).forgetDuringRaise)
}

// newcomers starts proxies without a past in front of masters of which most are empty, and the
// others do not answer.
func (p *plan) newcomers(r *rand.Rand) {
	p.count, p.mostHold = 3, 2*time.Second
	p.masters += 2 * r.IntN(2)
	p.scripted("a newcomer sees empty masters", (*faulter).newcomer)
	p.faults.gap = 500 * time.Millisecond
}

// losses empties a majority of the masters while a lock is held.
func (p *plan) losses(r *rand.Rand) {
	p.maxTTL, p.mostHold = between(r, 300*time.Millisecond, time.Second), time.Second
	p.masters, p.count = 3+2*r.IntN(2), 2+r.IntN(2)
	p.clients.ttl = [2]time.Duration{p.maxTTL / 2, p.maxTTL}
	p.scripted("most masters forget", (*faulter).forgetMost)
}

// steps makes the clocks of a majority of the masters jump while a lock is held, which ends it
// there.
func (p *plan) steps(r *rand.Rand) {
	p.maxTTL, p.mostHold, p.count = between(r, 500*time.Millisecond, 1500*time.Millisecond), time.Second, 2+r.IntN(2)
	p.clients.ttl = [2]time.Duration{p.maxTTL / 2, p.maxTTL}
	p.faults.gap, p.faults.kinds = 20*time.Millisecond,
		[]faultKind{{name: "clocks step together", forgets: true, do: (*faulter).stepTogether}}
	if r.IntN(2) == 0 { // several ask at once
		p.count, p.clients.think, p.masterTimeout = 8, 4*time.Millisecond, 100*time.Millisecond
		p.traffic.base[1] = 10 * time.Millisecond
	}
}

// returns brings an older state of a master back while clients hold locks of the newer one. Only
// other masters have seen that one.
func (p *plan) returns(r *rand.Rand) {
	p.length = 15 * time.Second
	p.maxTTL, p.mostHold, p.count = between(r, time.Second, 2*time.Second), 2*time.Second, 3
	p.clients.ttl = [2]time.Duration{p.maxTTL * 8 / 10, p.maxTTL}
	p.clients.forget = 0.3
	p.scripted("an older state comes back", (*faulter).returnOlder)
}

// evictions lets masters evict locks while no proxy can see it, or while all do.
func (p *plan) evictions(r *rand.Rand) {
	p.length = 20 * time.Second
	p.maxTTL, p.mostHold, p.count = between(r, 4*time.Second, 8*time.Second), 8*time.Second, 3
	p.clients.ttl, p.clients.keys, p.clients.forget = [2]time.Duration{p.maxTTL * 8 / 10, p.maxTTL}, 2, 0.5
	p.faults.gap, p.faults.kinds = 50*time.Millisecond, kindsOf("evicts")
}

// floors: a clock that was ahead when the counters began is set right, and all masters forget,
// while one proxy runs on.
func (p *plan) floors(r *rand.Rand) {
	p.length, p.proxies, p.remembered = 12*time.Second, 1, true
	p.maxTTL, p.count = between(r, 300*time.Millisecond, time.Second), 2+r.IntN(2)
	p.clients.ttl = [2]time.Duration{p.maxTTL / 2, p.maxTTL}
	p.scripted("a clock is set right and all forget", (*faulter).setRight)
}

// farClocks makes clocks that are years wrong begin the counters.
func (p *plan) farClocks(r *rand.Rand) {
	p.maxTTL, p.count, p.probes = between(r, 300*time.Millisecond, time.Second), 2+r.IntN(2), true
	p.masters += 2 * r.IntN(2)
	p.clients.ttl = [2]time.Duration{p.maxTTL / 2, p.maxTTL}
	p.scripted("most masters forget", (*faulter).forgetMost)
	p.faults.gap = 500 * time.Millisecond
}

// fastClocks lets the clock of one master run 8 % fast, with locks that last long enough to
// notice.
func (p *plan) fastClocks(r *rand.Rand) {
	p.length = 30 * time.Second
	p.maxTTL, p.mostHold, p.count = 6*time.Second, 6*time.Second, 4
	p.clients.ttl, p.clients.forget = [2]time.Duration{4 * time.Second, p.maxTTL}, 0.5
	p.clients.think = 300 * time.Millisecond
	p.faults.gap, p.faults.kinds = 200*time.Millisecond,
		[]faultKind{{name: "a master is away for a while", forgets: true, do: (*faulter).awayAWhile}}
}

// drift lets the clocks of all masters run as fast as drift allows, while clients hold locks to
// the end of their validity and others ask all the time.
func (p *plan) drift(r *rand.Rand) {
	p.maxTTL, p.count = between(r, time.Second, 4*time.Second), 4
	p.clients.ttl, p.clients.forget = [2]time.Duration{p.maxTTL / 2, p.maxTTL}, 0.9
	p.clients.think = 5 * time.Millisecond
	p.faults.kinds = nil
}

// quietLoad counts the operations that calls cost the masters, without faults, at several
// distances.
func (p *plan) quietLoad(r *rand.Rand) {
	p.clients = clientPlan{own: true, think: between(r, 20*time.Millisecond, 100*time.Millisecond)}
	p.masters += 2 * r.IntN(2)
	p.apart(r)
	p.mostHold = between(r, time.Millisecond, 300*time.Millisecond)
	p.count, p.counted, p.probes = 6, true, false
	p.faults.kinds = nil
}

// awayLoad counts it while one master is away now and then, and comes back.
func (p *plan) awayLoad(r *rand.Rand) {
	p.quietLoad(r)
	p.traffic.places, p.timeouts = nil, nil
	p.length, p.count = 10*time.Second, 4
	p.clients.think, p.mostHold = 60*time.Millisecond, between(r, 2*time.Millisecond, 20*time.Millisecond)
	p.clients.elsewere, p.clients.batch = some(r, 0.5), some(r, 1)
	p.faults.gap, p.faults.first, p.faults.last = time.Second, time.Second, 4*time.Second
	p.faults.kinds = []faultKind{{name: "one master is away", do: (*faulter).oneAway}}
}

// firstStart begins with masters of which some cannot be written, or are not there.
func (p *plan) firstStart(r *rand.Rand) {
	p.length = 25 * time.Second
	p.masters += 2 * r.IntN(2)
	p.denySome(r)
	p.deniedFor = p.length
	p.probes, p.recovers = true, true
	p.faults.kinds = nil
}

// silence holds answers back in one direction only, so that much is not known.
func (p *plan) silence(r *rand.Rand) {
	p.length = 12 * time.Second
	p.maxTTL, p.mostHold, p.count = 20*time.Second, 3*time.Second, 4
	p.clients = clientPlan{keys: 3, ttl: [2]time.Duration{10 * time.Second, p.maxTTL}, think: 50 * time.Millisecond,
		elsewere: 0.7, extend: some(r, 0.8)}
	p.faults.gap, p.faults.last = between(r, 50*time.Millisecond, 300*time.Millisecond), 3*time.Second
	p.faults.kinds, p.census = kindsOf("cut", "isolate a master", "trouble", "pause"), true
}

// cutOff keeps a proxy from most masters for longer than its clients' locks live, while they
// extend them, and others want the same.
func (p *plan) cutOff(r *rand.Rand) {
	p.masters, p.count = 3+2*r.IntN(2), 4
	p.maxTTL, p.masterTimeout, p.mostHold = time.Second, between(r, 10*time.Millisecond, 40*time.Millisecond),
		time.Second
	p.clients = clientPlan{keys: 1, ttl: [2]time.Duration{p.maxTTL / 3, p.maxTTL}, think: 30 * time.Millisecond,
		extend: 0.95, forget: 0.2}
	p.faults.gap, p.faults.last = 500*time.Millisecond, 3*time.Second
	p.faults.kinds = []faultKind{{name: "cut off from most", do: (*faulter).cutFromMost}}
}

// lateGrants keeps requests on their way until their lock has ended, and others have had it.
func (p *plan) lateGrants(r *rand.Rand) {
	p.count, p.masterTimeout, p.maxTTL = 1, between(r, 10*time.Millisecond, 30*time.Millisecond), time.Second
	p.clients = clientPlan{own: true, ttl: [2]time.Duration{200 * time.Millisecond, 400 * time.Millisecond},
		think: 100 * time.Millisecond}
	p.faults.gap = 20 * time.Millisecond
	p.faults.kinds = []faultKind{{name: "requests are late", do: (*faulter).requestsLate}}
}

// unlocks lets other proxies unlock at about the time when locks are checked, 2 s after they were
// taken, while messages are late and masters miss locks.
func (p *plan) unlocks(r *rand.Rand) {
	p.masters, p.proxies, p.count = 3+2*r.IntN(2), 2+r.IntN(2), 12
	p.maxTTL, p.mostHold, p.masterTimeout = 20*time.Second, 2500*time.Millisecond,
		between(r, 20*time.Millisecond, 150*time.Millisecond)
	p.clients = clientPlan{own: true, ttl: [2]time.Duration{10 * time.Second, p.maxTTL}, think: 30 * time.Millisecond,
		elsewere: 1, extend: some(r, 0.3)}
	p.traffic.late, p.traffic.latest = 0.1+0.3*r.Float64(), between(r, 20*time.Millisecond, 120*time.Millisecond)
	p.faults.gap, p.faults.last = between(r, 20*time.Millisecond, 200*time.Millisecond),
		between(r, 50*time.Millisecond, time.Second)
	p.faults.kinds = kindsOf("trouble", "cut", "slow")
}

// extended lets clients extend locks soon and several times, and unlock them through another
// proxy, while masters miss each of that: a lock is set again after it was released.
func (p *plan) extended(r *rand.Rand) {
	p.length = between(r, 4*time.Second, 10*time.Second)
	p.maxTTL, p.mostHold, p.count = 60*time.Second, 60*time.Millisecond, 6
	if r.IntN(2) == 0 { // some are held when they are checked
		p.length, p.mostHold, p.count = 12*time.Second, 3*time.Second, 12
	}
	p.masterTimeout = between(r, 20*time.Millisecond, 150*time.Millisecond)
	p.clients = clientPlan{keys: 12, ttl: [2]time.Duration{30 * time.Second, p.maxTTL}, think: 30 * time.Millisecond,
		elsewere: 1, extend: 0.7, soon: true}
	if r.IntN(2) == 0 {
		p.clients.kinds.draw(r)
	}
	p.traffic.late, p.traffic.latest = 0.3*r.Float64(), between(r, 20*time.Millisecond, 200*time.Millisecond)
	p.faults.gap, p.faults.last = between(r, 20*time.Millisecond, 200*time.Millisecond),
		between(r, 50*time.Millisecond, 2*time.Second)
	p.faults.kinds, p.census = kindsOf("cut", "isolate a master", "clog", "slow", "reset", "pause", "flush scripts"), true
}

// scripts makes masters forget their scripts, while answers are late.
func (p *plan) scripts(r *rand.Rand) {
	p.length = 15 * time.Second
	p.masterTimeout = between(r, 5*time.Millisecond, 40*time.Millisecond)
	p.maxTTL, p.mostHold, p.count = 60*time.Second, 300*time.Millisecond, 4
	p.clients = clientPlan{keys: 3, ttl: [2]time.Duration{30 * time.Second, p.maxTTL}, think: 50 * time.Millisecond,
		abandon: some(r, 0.3), elsewere: 0.5, batch: some(r, 0.8)}
	p.traffic.late, p.traffic.latest = 0.2*r.Float64(), 2*p.masterTimeout
	p.faults.gap, p.faults.last = between(r, 50*time.Millisecond, 500*time.Millisecond), time.Second
	p.faults.kinds, p.census, p.probes = kindsOf("flush scripts"), true, true
	if r.IntN(2) == 0 {
		p.faults.kinds = kindsOf("flush scripts", "slow", "cut")
	}
}

// certainClocks sets the clocks of the families that need certain ones.
func (p *plan) certainClocks(r *rand.Rand) {
	switch p.family {
	case "counters":
		if r.IntN(2) == 0 {
			p.ahead[r.IntN(p.masters)] = between(r, time.Hour, 20*time.Hour)
		}
	case "floors":
		p.ahead[r.IntN(p.masters)] = between(r, time.Hour, 20*time.Hour)
	case "far clocks":
		p.farOff(r)
	case "drift":
		for i := range p.rates {
			p.rates[i] = 1.009
		}
	case "fast clocks":
		p.rates[r.IntN(p.masters)] = 1.08
	}
}
