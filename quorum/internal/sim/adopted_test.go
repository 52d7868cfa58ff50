package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"lockproxy/quorum"
)

// Adopted locks: clients take, refresh, read and release them by value.

// adoptedPlan says how clients use values.
type adoptedPlan struct {
	values int           // clients share so many; 0: no client adopts
	tokens float64       // share of locks that are taken with LOCK
	rest   time.Duration // shortened locks live for at least so long
	rounds int           // of refreshes and reads, at most
	strays float64       // share of calls that release without a lock
	lately time.Duration // messages are on their way for less
}

// adopted takes one lock by value, uses it and releases it, or not.
func (c *simClient) adopted(pr *simProxy) {
	plan := &c.w.plan.clients
	key, value := c.key(), fmt.Sprint("v", c.index%plan.adopted.values)
	switch { // of an earlier lock, perhaps of another client
	case c.chance(plan.adopted.strays):
		c.releaseValue(key, value, pr)
		return
	case c.chance(0.1):
		c.byValue(key, value, pr)
		return
	}
	call := c.w.ledger.uses(quorum.ValueRequest{Key: key, Value: value}, takes)
	cl, err := c.acquire(pr, quorum.Request{Key: key, Value: value, TTL: c.ttl()})
	if c.w.ledger.returns(call); err != nil {
		return
	}
	for rounds := c.random.IntN(1 + plan.adopted.rounds); rounds > 0; rounds-- {
		until := max(time.Until(c.w.ledger.endOf(cl)), 0)
		switch p := c.random.Float64(); {
		case p < 0.1:
			until += until / 4 // perhaps another has had the lock by then
		case p < 0.5:
			until = min(until, c.w.plan.mostHold)
		}
		if !c.w.wait(c.moment(until)) {
			return
		}
		c.w.keeps(cl)
		c.byValue(key, value, c.through(pr))
	}
	left := max(time.Until(c.w.ledger.endOf(cl)), 0)
	if c.chance(plan.forget) {
		c.w.wait(c.moment(left))
		return
	}
	c.w.wait(c.moment(min(left, c.w.plan.mostHold)))
	c.w.keeps(cl)
	c.releaseValue(key, value, c.through(pr))
}

// byValue refreshes or reads the lock of a value.
func (c *simClient) byValue(key, value string, pr *simProxy) {
	switch p := c.random.Float64(); {
	case p < 0.15:
		c.read(key, pr)
	case p < 0.25:
		c.refresh(quorum.ValueRequest{Key: key, Value: value, TTL: c.ttl() / 8, Add: true}, pr)
	case p < 0.6:
		c.refresh(quorum.ValueRequest{Key: key, Value: value, TTL: c.w.plan.clients.adopted.rest + c.ttl()/16}, pr)
	default:
		c.refresh(quorum.ValueRequest{Key: key, Value: value, TTL: c.ttl()}, pr)
	}
}

// mostByValue is the longest time that a call by value may take: a remembered secret, a search and
// another secret, each with two rounds.
const mostByValue = 6 * time.Second

// await runs a call by value.
func await[T any](pr *simProxy, begin func(done func(T, error))) (T, error) {
	got, _, err := quorum.Await(context.Background(), pr.q.Flush, begin)
	return got, err
}

func (c *simClient) refresh(r quorum.ValueRequest, pr *simProxy) {
	time.Sleep(c.moment(0))
	w := c.w
	call := w.ledger.uses(r, refreshes)
	what := "REFRESH " + r.Value
	if r.Add {
		what = "ADD " + r.Value
	}
	w.trace.add(event{what: what, proxy: pr.serial, master: -1, client: c.index, key: r.Key, d: r.TTL})
	held, err := await(pr, func(done func(bool, error)) { pr.q.Values().RefreshAsync(r, done) })
	c.used(call, pr, held, err)
	if held && err == nil && call.shortened {
		c.letsGo(call)
	}
}

func (c *simClient) releaseValue(key, value string, pr *simProxy) {
	time.Sleep(c.moment(0))
	r := quorum.ValueRequest{Key: key, Value: value}
	call := c.w.ledger.uses(r, releases)
	c.w.trace.add(event{what: "RELEASE " + value, proxy: pr.serial, master: -1, client: c.index, key: key})
	held, err := await(pr, func(done func(bool, error)) { pr.q.Values().ReleaseAsync(r, done) })
	c.used(call, pr, held, err)
}

// used is called when a call by value has returned.
func (c *simClient) used(call *valueCall, pr *simProxy, held bool, err error) {
	e := event{what: "RETURNS", proxy: pr.serial, master: -1, client: c.index, key: call.Key, more: fmt.Sprint(held)}
	if err != nil {
		e.more = err.Error()
	} else if c.w.crashed(pr) {
		err = errCrashed
	}
	c.w.trace.add(e)
	c.w.ledger.took(call.Key, "a call by value", call.began, mostByValue)
	c.w.ledger.used(call, held, err)
}

// read checks that the lock of a client is seen while it holds it.
func (c *simClient) read(key string, pr *simProxy) {
	time.Sleep(c.moment(0))
	before := c.w.ledger.holderOf(key)
	h, err := await(pr, func(done func(quorum.Held, error)) { pr.q.Values().ReadAsync(key, done) })
	if err != nil || before == nil || c.w.crashed(pr) || before != c.w.ledger.holderOf(key) || c.w.ledger.forgets {
		return
	}
	if !h.Held || h.Value != before.value {
		c.w.ledger.wrong(key, "client %d has lost its lock for a reader: %+v", before.client, h)
	}
}

// keeps checks that a majority has a lock, until its client counts on it no more.
func (w *world) keeps(cl *claim) {
	left := time.Until(w.ledger.endOf(cl))
	if w.ledger.forgets || left <= 0 || w.ledger.broke() {
		return
	}
	n := 0
	for _, m := range w.servers() {
		m.Set(func() {
			// Ends are whole milliseconds.
			l, ok := m.Lock("lock:" + cl.key)
			if ok && l.Secret == cl.token.Secret && l.End.Sub(m.clock()) >= left-time.Millisecond {
				n++
			}
		})
	}
	if n < majority(len(w.net.at)) {
		w.ledger.token = cl.token.Secret
		w.ledger.wrong(cl.key, "a promise ends early: client %d counts on it for %v, and %d masters keep it so long",
			cl.client, left, n)
	}
}

// holders counts the masters that have a secret.
func (w *world) holders(key, secret string) (n int) {
	for _, m := range w.servers() {
		for s := range m.standing("lock:"+key, false) {
			if s == secret {
				n++
			}
		}
	}
	return n
}

// extra is how long masters keep a lock after a promise has ended: the longest attempt, clocks,
// and the count of changes in the end.
func extra(t time.Duration) time.Duration {
	return max(min(t/4, time.Second), 2*time.Millisecond) + 3*(t/100) + 30*time.Millisecond
}

// letsGo waits until a shortened lock must have ended, unless it was used again.
func (c *simClient) letsGo(call *valueCall) {
	w := c.w
	w.group.Go(func() {
		if !w.wait(w.own(call.TTL+extra(call.TTL), 6100+c.index)) || !w.ledger.untouched(call) {
			return
		}
		if n := w.holders(call.Key, call.claim.token.Secret); n >= majority(len(w.net.at)) {
			w.ledger.token = call.claim.token.Secret
			w.ledger.wrong(call.Key, "a shortened lock lives on: %d masters have that of client %d, refreshed for %v", n,
				call.claim.client, call.TTL)
		}
	})
}

// use is the purpose of a call.
type use uint8

const (
	takes use = iota
	refreshes
	releases
)

// valueCall is a call by value.
type valueCall struct {
	quorum.ValueRequest
	use       use
	began     time.Time
	ended     time.Time // zero: under way
	claim     *claim    // the lock that its value held when it began
	end       time.Time // of that claim then
	highest   uint64    // the largest fence given out until then
	shortened bool      // it asked for less than the claim had, and for long no other call touched it
}

// values are the calls about one value of a key, and its locks.
type values struct {
	claims []*claim
	calls  []*valueCall
}

func (l *ledger) valuesLocked(key, value string) *values {
	name := key + " " + value
	if l.values[name] == nil {
		l.values[name] = new(values)
	}
	return l.values[name]
}

// latest returns the newest lock of a value.
func (v *values) latest() (c *claim) {
	for _, one := range v.claims {
		if c == nil || one.token.Fence > c.token.Fence {
			c = one
		}
	}
	return c
}

// beside yields the other calls that were under way after call began.
func (v *values) beside(call *valueCall) (calls []*valueCall) {
	for _, other := range v.calls {
		if other != call && (other.ended.IsZero() || other.ended.After(call.began)) {
			calls = append(calls, other)
		}
	}
	return calls
}

// uses is called before a call by value. From here on its client does not count on more than the
// call leaves: a release ends every lock of the value, and a refresh may shorten it.
func (l *ledger) uses(r quorum.ValueRequest, use use) *valueCall {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	call := &valueCall{ValueRequest: r, use: use, began: now, highest: l.keyLocked(r.Key).highest}
	v := l.valuesLocked(r.Key, r.Value)
	if call.claim = v.latest(); call.claim != nil {
		call.end = call.claim.end
		call.shortened = use == refreshes && !r.Add && now.Add(r.TTL).Before(call.end) &&
			now.Sub(call.claim.began) > l.lately
	}
	for _, other := range v.calls {
		if other.ended.IsZero() || now.Sub(other.ended) < l.lately {
			call.shortened = false
		}
	}
	v.calls = append(v.calls, call)
	for _, c := range v.claims {
		switch end := now.Add(r.TTL); {
		case use == releases:
			c.over, c.end = true, early(c.end, now)
		case use == refreshes && !r.Add:
			c.end = early(c.end, end)
		}
	}
	return call
}

func early(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// releasedLocked reports whether a release of the value was under way since asked: it may have
// ended a lock that is given out now.
func (l *ledger) releasedLocked(key, value string, asked time.Time) bool {
	beside := l.valuesLocked(key, value).beside(&valueCall{began: asked})
	return slices.ContainsFunc(beside, func(call *valueCall) bool { return call.use == releases })
}

// adopted is called when a lock was taken by value.
func (l *ledger) adopted(c *claim, value string, began time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	v := l.valuesLocked(c.key, value)
	c.value = value
	v.claims = append(v.claims, c)
	for _, other := range v.beside(&valueCall{began: began}) {
		if other.use == refreshes && !other.Add {
			c.end = early(c.end, other.began.Add(other.TTL))
		}
	}
}

// returns is called when a take has returned.
func (l *ledger) returns(call *valueCall) {
	l.mu.Lock()
	defer l.mu.Unlock()
	call.ended = time.Now()
}

// used is called when a refresh or release has returned.
func (l *ledger) used(call *valueCall, held bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	call.ended = now
	v := l.valuesLocked(call.Key, call.Value)
	beside, c := v.beside(call), call.claim
	if err != nil || c == nil || c != v.latest() {
		return
	}
	end := now.Add(call.TTL)
	for _, other := range beside {
		switch {
		case other.use != refreshes:
			return // for another lock of the value, perhaps
		case !other.Add:
			end = early(end, other.began.Add(other.TTL))
		}
	}
	switch {
	case !held:
		if call.end.After(now) && len(beside) == 0 && !l.forgets {
			l.token = c.token.Secret
			l.wrongLocked(call.Key, "a call by value says that client %d has lost its lock, %v before its end", c.client,
				call.end.Sub(now))
		}
	case call.use == refreshes && !c.over:
		l.extends++
		if !l.unfenced && !l.shared && call.highest > c.token.Fence {
			l.token = c.token.Secret
			l.wrongLocked(call.Key, "fence %d was extended after %d had been given out", c.token.Fence, call.highest)
		}
		if end.After(c.end) {
			c.end = end
		}
		l.aloneLocked(l.keyLocked(call.Key), c, now)
	}
}

// untouched reports whether no other call was about the value of a shortening since it began.
func (l *ledger) untouched(call *valueCall) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	v := l.valuesLocked(call.Key, call.Value)
	return len(v.beside(call)) == 0 && v.latest() == call.claim && l.fault == ""
}

func (l *ledger) endOf(c *claim) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return c.end
}

// holderOf returns the claim whose client counts on an adopted lock of the key, for as long as a
// read takes; nil without one.
func (l *ledger) holderOf(key string) *claim {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.keyLocked(key).active {
		if c.value != "" && c.end.After(time.Now()) {
			return c
		}
	}
	return nil
}

// struckLocked notes that a master has released a secret while a majority did not have it yet. A
// take of which a part was released must fail.
func (w *world) struckLocked(li *simLink, key, secret string) {
	l := w.ledger
	n := 1
	for _, m := range li.net.at {
		for s := range m.standing(key, false) {
			if s == secret {
				n++
			}
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.secrets[secret] == nil && l.struck[secret] == 0 {
		l.struck[secret] = n
	}
}

// adopted lets clients take and use locks by value, through several proxies, while messages are
// late or lost. Values repeat.
func (p *plan) adopted(r *rand.Rand) {
	p.length, p.masters, p.proxies, p.count = 15*time.Second, 3+2*r.IntN(2), 2+r.IntN(2), 3+r.IntN(4)
	p.maxTTL, p.mostHold = 12*time.Second, between(r, 5*time.Millisecond, 500*time.Millisecond)
	p.masterTimeout = between(r, 10*time.Millisecond, 100*time.Millisecond)
	p.clients = clientPlan{keys: 1 + r.IntN(3), ttl: [2]time.Duration{200 * time.Millisecond, 4 * time.Second},
		think: between(r, 5*time.Millisecond, 100*time.Millisecond), elsewere: some(r, 1), forget: some(r, 0.5)}
	p.clients.adopted = adoptedPlan{values: p.count, tokens: some(r, 0.3), rounds: 4, lately: 4 * time.Second,
		rest: between(r, 5*time.Millisecond, 200*time.Millisecond)}
	if r.IntN(3) == 0 {
		p.clients.adopted.values = 1 + r.IntN(p.count)
	}
	p.traffic.late, p.traffic.latest = some(r, 0.3), between(r, 5*time.Millisecond, 150*time.Millisecond)
	p.faults.gap = between(r, 50*time.Millisecond, time.Second)
	p.faults.last = between(r, 50*time.Millisecond, 2*time.Second)
	switch r.IntN(10) {
	case 0: // all is well
		p.traffic.late, p.clients.adopted.lately = 0, 100*time.Millisecond
	case 1:
		p.faults.kinds = kindsOf("cut", "slow", "clog")
	case 2:
		p.faults.kinds = kindsOf("cut", "isolate a master", "reset", "pause")
	case 3:
		p.faults.kinds = kindsOf("trouble", "cut", "reset a master", "flush scripts")
	case 4, 5, 6: // refreshes overtake each other
		p.masters, p.proxies, p.masterTimeout = 3, 3, between(r, 5*time.Millisecond, 20*time.Millisecond)
		p.clients.keys, p.clients.elsewere, p.clients.forget = 3, 1, 0
		p.clients.adopted.rounds, p.mostHold = 20, 20*time.Millisecond
		p.clients.ttl = [2]time.Duration{time.Second, 4 * time.Second}
		p.clients.adopted.rest = between(r, 30*time.Millisecond, 200*time.Millisecond)
		p.traffic.late, p.traffic.latest = 0.2+0.4*r.Float64(), between(r, 20*time.Millisecond, 300*time.Millisecond)
	case 7: // takes and releases of one value meet
		p.clients.keys, p.clients.elsewere, p.mostHold = 1, 1, 10*time.Millisecond
		p.clients.think = 20 * time.Millisecond
		p.clients.adopted.values, p.clients.adopted.strays, p.clients.adopted.rounds = 1, 0.3, 1
		p.traffic.late, p.traffic.latest = 0.3, between(r, 5*time.Millisecond, 50*time.Millisecond)
	case 8: // one master misses much, and ttls are long
		p.maxTTL, p.length = 30*time.Second, 25*time.Second
		p.clients.ttl, p.clients.think = [2]time.Duration{2 * time.Second, 15 * time.Second}, time.Second
		p.clients.keys, p.faults.last = 3, 8*time.Second
		p.faults.kinds = kindsOf("isolate a master", "cut")
	default: // masters forget
		p.maxTTL = between(r, time.Second, 3*time.Second)
		p.clients.ttl = [2]time.Duration{p.maxTTL / 8, p.maxTTL}
		p.faults.kinds = kindsOf("restart", "FLUSHALL", "cut", "crash a proxy")
	}
	// Late answers and masters without their memory may keep free keys from being taken.
	p.takes = p.traffic.late == 0 && !p.faults.loses()
}
