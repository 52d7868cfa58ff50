package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"lockproxy/quorum"
)

// plan is one run: everything that is chosen before it begins. It follows from the seed alone.
type plan struct {
	seed    uint64
	family  string // empty: noise
	length  time.Duration
	masters int
	proxies int
	clients clientPlan
	count   int // of clients
	traffic trafficPlan
	faults  faultPlan

	maxTTL        time.Duration
	masterTimeout time.Duration
	mostHold      time.Duration
	fencing       bool
	guard         quorum.GuardMode
	// all masters may lose their memory at once, although the guard is on: two may hold a lock
	wipes   bool
	stagger time.Duration   // proxies start within this
	durable []bool          // masters that keep everything on disk
	census  bool            // long ttls: a key that is left at the end is a fault
	rates   []float64       // of the servers' clocks
	ahead   []time.Duration // of the servers' clocks

	timeouts   []time.Duration // master-timeout by place of the proxy; nil: the same everywhere
	loops      []bool          // proxies whose connections an event loop reads, by place
	denied     []string        // why a server cannot be written from the start on; nil: all can
	deniedFor  time.Duration   // and for how long
	probes     bool            // it is tried whether free keys are granted
	recovers   bool            // in the end it is tried whether all that was lost comes back
	helpless   bool            // ... but an operator may be needed
	fight      bool            // one waits for a key that others share
	counted    bool            // the load on the masters is checked
	takes      bool            // at the end a client tries to acquire each free key
	remembered bool            // a proxy runs all the time: all masters may be emptied
	load       loadPlan        // more than the masters can take
}

// spares is how many servers have no address at first.
const spares = 1

// timeoutAt is the master-timeout of the proxy at a place.
func (p *plan) timeoutAt(place int) time.Duration {
	if p.timeouts != nil {
		return p.timeouts[place]
	}
	return p.masterTimeout
}

// mostWait is the longest time that a round may take.
func (p *plan) mostWait() time.Duration { return attemptTime(p.maxTTL) }

// mostAcquire is the longest time that an Acquire may take.
func mostAcquire(ttl time.Duration) time.Duration {
	return (1+maxRetries+maxAskAgain)*2*attemptTime(ttl) + maxRetries*maxRetryDelay
}

// quarantine is how long a master stays out that has lost its memory.
func (p *plan) quarantine() time.Duration {
	life := quorum.Life(p.maxTTL)
	return life + life/100 + 52*time.Millisecond
}

// newPlan draws a run. Each run has a few faults of its own, so runs differ much from each other:
// a bug that needs a certain mix gets it sooner than if all runs had all.
func newPlan(seed uint64) *plan {
	r := rand.New(rand.NewPCG(seed, 1))
	p := &plan{
		seed:          seed,
		length:        between(r, 8*time.Second, 20*time.Second),
		masters:       3 + 2*r.IntN(2),
		proxies:       2 + r.IntN(2),
		count:         4 + r.IntN(5),
		maxTTL:        2 * time.Second,
		masterTimeout: between(r, 10*time.Millisecond, 60*time.Millisecond),
		fencing:       !rarely(r, 0.05),
		census:        rarely(r, 0.3),
	}
	if rarely(r, 0.2) {
		p.length *= 3
	}
	switch {
	case rarely(r, 0.05):
		p.guard = quorum.GuardOff
	case rarely(r, 0.1) && !p.census:
		p.guard = quorum.GuardStrict
	case rarely(r, 0.1):
		p.wipes = true
	}
	if rarely(r, 0.5) {
		p.stagger = 2 * time.Second
	}
	mostDurable := some(r, 1)
	for range p.masters + spares {
		p.durable = append(p.durable, rarely(r, mostDurable))
	}
	p.mostHold = between(r, 5*time.Millisecond, time.Second)
	p.drawClients(r)
	p.traffic = newTrafficPlan(r)
	if !p.census && rarely(r, 0.15) {
		p.hot(r)
	}
	p.faults.draw(r, p)
	p.drawClocks(r)
	p.drawProxies(r)
	p.probes, p.recovers = !p.census && rarely(r, 0.5), !p.census && rarely(r, 0.3)
	p.helpless = p.faults.has("clock steps") && p.faults.loses() || p.farBehind()
	if rarely(r, 0.1) {
		p.denySome(r)
	}
	p.join(r)
	return p
}

// drawClients draws the behaviour of clients. A census needs a longer run.
func (p *plan) drawClients(r *rand.Rand) {
	p.clients = clientPlan{
		keys:     1 + r.IntN(3),
		ttl:      [2]time.Duration{200 * time.Millisecond, 2 * time.Second},
		think:    between(r, 10*time.Millisecond, 800*time.Millisecond),
		abandon:  some(r, 0.3),
		forget:   some(r, 0.5),
		elsewere: some(r, 0.6),
		extend:   some(r, 0.7),
		batch:    some(r, 0.8),
	}
	if rarely(r, 0.3) {
		p.clients.ttl[1] = 400 * time.Millisecond
	}
	if p.census {
		p.length = between(r, 10*time.Second, 20*time.Second)
		p.maxTTL = 60 * time.Second
		p.clients.ttl = [2]time.Duration{30 * time.Second, p.maxTTL}
		p.clients.keys += 3
		p.clients.forget /= 10
	}
	if rarely(r, 0.6) {
		p.clients.kinds.draw(r)
		p.clients.keys = max(p.clients.keys, 1+r.IntN(3))
	}
}

// drawProxies makes proxies that differ: in their master-timeout, in how far they are from the
// masters, and in whether an event loop reads their connections.
func (p *plan) drawProxies(r *rand.Rand) {
	for range p.proxies {
		p.loops = append(p.loops, r.IntN(2) == 0)
	}
	if !rarely(r, 0.3) {
		return
	}
	for range p.proxies {
		p.timeouts = append(p.timeouts, between(r, 10*time.Millisecond, 150*time.Millisecond))
	}
	if p.census || !rarely(r, 0.5) {
		return
	}
	p.apart(r)
}

// apart makes proxies that are up to 60ms there and back from the masters.
func (p *plan) apart(r *rand.Rand) {
	p.timeouts, p.traffic.places = nil, nil
	for range p.proxies {
		away := between(r, 0, 30*time.Millisecond)
		p.traffic.places = append(p.traffic.places, away)
		p.timeouts = append(p.timeouts, 3*away+between(r, 15*time.Millisecond, 100*time.Millisecond))
	}
	p.maxTTL = 6 * time.Second
	p.clients.ttl = [2]time.Duration{3 * time.Second, p.maxTTL}
}

// denySome makes a minority of the masters one that answers and cannot be written, from the start
// on.
func (p *plan) denySome(r *rand.Rand) {
	p.denied = make([]string, p.masters+spares)
	for _, i := range r.Perm(p.masters)[:1+r.IntN(p.masters-majority(p.masters))] {
		p.denied[i] = denials[r.IntN(len(denials))]
	}
	p.deniedFor = between(r, 0, 2*p.length)
}

// hot makes all clients fight for one key that they do not keep, while single messages are late.
func (p *plan) hot(r *rand.Rand) {
	p.length, p.mostHold = 6*time.Second, 2*time.Millisecond
	p.clients = clientPlan{keys: 1, ttl: p.clients.ttl, think: between(r, 2*time.Millisecond, 30*time.Millisecond)}
	p.traffic = trafficPlan{
		base: [2]time.Duration{50 * time.Microsecond, 400 * time.Microsecond},
		late: 0.05 + 0.2*r.Float64(), latest: between(r, 10*time.Millisecond, 50*time.Millisecond),
	}
}

func newTrafficPlan(r *rand.Rand) trafficPlan {
	return trafficPlan{
		base:    [2]time.Duration{50 * time.Microsecond, between(r, 100*time.Microsecond, 3*time.Millisecond)},
		late:    some(r, 0.15),
		latest:  between(r, 5*time.Millisecond, 120*time.Millisecond),
		farAway: some(r, 0.2),
	}
}

// drawClocks makes clocks that differ, by rates that the drift covers. In some runs all are as
// fast as that. If counters may be lost the clocks take their place, so they must be right to
// within max-ttl; clocks that are years off do not count.
func (p *plan) drawClocks(r *rand.Rand) {
	fast, apart := rarely(r, 0.3), time.Minute
	if p.faults.loses() {
		apart = 500 * time.Millisecond
	}
	for range p.masters + spares {
		rate := 1 + (r.Float64()*2-1)*0.005
		if fast {
			rate = 1.003 + r.Float64()*0.006
		}
		p.rates = append(p.rates, rate)
		p.ahead = append(p.ahead, time.Duration((r.Float64()*2-1)*float64(apart)))
	}
	if rarely(r, 0.2) {
		p.farOff(r)
	}
}

// farBehind reports whether a master's clock is years behind. That master cannot grant once it has
// seen a counter of the others, so a majority may need an operator if another one is away.
func (p *plan) farBehind() bool {
	return slices.ContainsFunc(p.ahead, func(d time.Duration) bool { return d < -24*time.Hour })
}

// years are how far the clocks of a minority may be off.
var years = []time.Duration{-20, -1, 1, 80, 112, 180} // the last two: beyond 2109

// farOff makes the clocks of a minority of the masters years wrong.
func (p *plan) farOff(r *rand.Rand) {
	for _, i := range r.Perm(p.masters)[:1+r.IntN(p.masters-majority(p.masters))] {
		p.ahead[i] = years[r.IntN(len(years))] * 365 * 24 * time.Hour
	}
}

func (p *plan) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d %s: %d masters, %d proxies, %d clients on %d keys for %v, ttl %v, max-ttl %v, "+
		"master-timeout %v",
		p.seed, p.family, p.masters, p.proxies, p.count, p.clients.keys, p.length.Round(time.Second), p.clients.ttl,
		p.maxTTL, p.masterTimeout.Round(time.Millisecond))
	fmt.Fprintf(&b, " %v, loops %v, apart %v, denied %q for %v, probes %v, recovers %v", p.timeouts, p.loops,
		p.traffic.places, p.denied, p.deniedFor, p.probes, p.recovers)
	fmt.Fprintf(&b, ", fencing %v, guard %v, all may be wiped %v, durable %v, clocks ahead %v, census %v",
		p.fencing, [...]string{"on", "strict", "off"}[p.guard], p.wipes, p.durable, p.ahead, p.census)
	fmt.Fprintf(&b, ", faults about every %v: %v", p.faults.gap.Round(time.Millisecond), p.faults.names())
	return b.String()
}

func between(r *rand.Rand, low, high time.Duration) time.Duration {
	return low + time.Duration(r.Int64N(int64(high-low)+1))
}

func rarely(r *rand.Rand, p float64) bool { return r.Float64() < p }

// some is a share: none in a third of all runs, else up to most.
func some(r *rand.Rand, most float64) float64 {
	if rarely(r, 0.33) {
		return 0
	}
	return r.Float64() * most
}
