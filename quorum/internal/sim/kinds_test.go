package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"lockproxy/quorum"
)

// kindsPlan gives the shares of locks that are not exclusive or of several keys. The others are
// exclusive and of one key.
type kindsPlan struct {
	shared  float64
	limited float64
	limit   int // at most; each asks for its own
	several float64
	keep    float64 // share of releases that keep the lock closed
	share   float64 // share of extensions of an exclusive lock that make it shared
	waits   float64 // share of clients that say they wait
}

func (k *kindsPlan) none() bool { return *k == kindsPlan{} }

// draw makes a mix of kinds.
func (k *kindsPlan) draw(r *rand.Rand) {
	*k = kindsPlan{shared: some(r, 0.6), limited: some(r, 0.4), limit: 1 + r.IntN(4), several: some(r, 0.3),
		keep: some(r, 0.15), share: some(r, 0.4), waits: some(r, 0.5)}
}

// want returns the next request of the client, with that key among others.
func (c *simClient) want(key string) quorum.Request {
	k := &c.w.plan.clients.kinds
	r := quorum.Request{Key: key, TTL: c.ttl()}
	if k.none() {
		return r
	}
	if c.chance(k.waits) {
		r.Waits = c.moment(2 * time.Second)
	}
	switch p := c.random.Float64(); {
	case p < k.shared:
		r.Mode = quorum.Shared
	case p < k.shared+k.limited:
		r.Mode, r.Limit = quorum.Limited, 1+c.random.IntN(k.limit)
	case c.chance(k.several):
		for range 1 + c.random.IntN(2) {
			if other := c.key(); other != key && !slices.Contains(r.Keys, other) {
				r.Keys = append(r.Keys, other)
			}
		}
	}
	return r
}

// kindText describes a request without its key and ttl.
func kindText(r quorum.Request) string {
	text := ""
	if r.Mode != quorum.Exclusive {
		text = fmt.Sprint(r.Mode, " ", r.Limit)
	}
	if r.Keys != nil {
		text += fmt.Sprint(" and ", r.Keys)
	}
	if r.Waits > 0 {
		text += " waits"
	}
	return text
}

func slotText(r quorum.Request, lease quorum.Lease) string {
	if r.Mode != quorum.Limited {
		return fmt.Sprint("fence ", lease.Token.Fence)
	}
	return fmt.Sprint("slot ", lease.Slot, " fence ", lease.Token.Fence)
}

// extendAs extends a lease as its kind wants it, or makes it shared.
func (c *simClient) extendAs(ctx context.Context, cl *claim, pr *simProxy, ttl time.Duration) (time.Duration, error) {
	share := cl.mode == quorum.Exclusive && len(cl.keys) == 1 && c.chance(c.w.plan.clients.kinds.share)
	if share {
		c.w.ledger.shares(cl)
	}
	return pr.q.Extend(ctx, cl.keys, cl.token, ttl, share)
}

// releaseAs releases a lease, or keeps it closed.
func (c *simClient) releaseAs(ctx context.Context, call *giving) {
	keep := time.Duration(0)
	if c.chance(c.w.plan.clients.kinds.keep) {
		keep = c.ttl()
	}
	cl, began := call.cl, time.Now()
	held, err := call.pr.q.Release(ctx, cl.keys, cl.token, keep)
	if keep > 0 && held && err == nil && !c.w.crashed(call.pr) {
		c.w.ledger.keeps(cl, cl.keys, began.Add(keep-drift(keep)))
	}
	call.finish(held, err)
}

// readers lets readers come and go beside some who want the key alone, with messages that are late
// and masters that forget.
func (p *plan) readers(r *rand.Rand) {
	p.masters, p.proxies, p.count = 3+2*r.IntN(2), 3, 5+r.IntN(4)
	p.maxTTL, p.mostHold = 4*time.Second, between(r, 2*time.Millisecond, 200*time.Millisecond)
	p.clients = clientPlan{
		keys: 1, ttl: [2]time.Duration{p.maxTTL / 4, p.maxTTL},
		think:    between(r, time.Millisecond, 30*time.Millisecond),
		elsewere: r.Float64(), extend: some(r, 0.5), forget: some(r, 0.1),
		kinds: kindsPlan{shared: 0.3 + 0.6*r.Float64(), share: some(r, 1), waits: some(r, 0.3)},
	}
	p.traffic.late, p.traffic.latest = 0.2*r.Float64(), between(r, 5*time.Millisecond, 60*time.Millisecond)
	p.faults.gap, p.faults.last = between(r, 50*time.Millisecond, 500*time.Millisecond),
		between(r, 50*time.Millisecond, 600*time.Millisecond)
	p.faults.kinds = kindsOf("trouble", "isolate a master", "cut")
	if r.IntN(2) == 0 { // no command fails
		p.faults.kinds = p.faults.kinds[1:]
	}
	if r.IntN(3) == 0 { // with a search for keys that are left at the end
		p.census, p.length, p.maxTTL = true, 10*time.Second, time.Minute
		p.clients.ttl, p.clients.forget = [2]time.Duration{p.maxTTL / 2, p.maxTTL}, 0
	}
}

// slots lets many fight for few slots, while holders leave early or late.
func (p *plan) slots(r *rand.Rand) {
	p.readers(r)
	p.count = 6 + r.IntN(6)
	p.clients.kinds = kindsPlan{limited: 0.7 + 0.3*r.Float64(), limit: 1 + r.IntN(4), waits: some(r, 0.3)}
}

// severalKeys locks two or three keys at once, in any order, beside single ones.
func (p *plan) severalKeys(r *rand.Rand) {
	p.readers(r)
	p.clients.keys = 2 + r.IntN(2)
	p.clients.kinds = kindsPlan{several: 0.5 + 0.5*r.Float64(), shared: some(r, 0.2), waits: some(r, 0.3)}
}

// keptKeys leaves locks closed for a while when they are given back.
func (p *plan) keptKeys(r *rand.Rand) {
	p.readers(r)
	p.census, p.maxTTL = false, time.Second
	p.clients.ttl = [2]time.Duration{p.maxTTL / 4, p.maxTTL}
	p.clients.extend = 0.5
	p.clients.kinds = kindsPlan{keep: 0.3 + 0.5*r.Float64(), shared: some(r, 0.3), limited: some(r, 0.3), limit: 2,
		several: some(r, 0.3)}
	p.clients.keys = 1 + r.IntN(2)
	if r.IntN(3) == 0 { // with a search for tokens that are left beside what stays closed
		p.census, p.maxTTL, p.clients.keys = true, time.Minute, 6
		p.clients.ttl, p.clients.forget = [2]time.Duration{p.maxTTL / 2, p.maxTTL}, 0
	}
}

// starved has one who waits for a key that readers take all the time.
func (p *plan) starved(r *rand.Rand) {
	p.length, p.count, p.proxies = 10*time.Second, 8, 2
	p.mostHold, p.fight = between(r, 100*time.Millisecond, time.Second), true
	p.clients.think = 5 * time.Millisecond
	p.clients.kinds = kindsPlan{shared: 1}
}

// mostWaits is the longest wait for a lock that others share: the holders end within a ttl, and
// one more if the intent was late.
func (p *plan) mostWaits() time.Duration { return 2 * p.maxTTL }

// waiter wants a key alone that others share, again and again, like the head of a wait queue.
func (w *world) waiter() {
	c := &simClient{w: w, index: waiterIndex, random: rand.New(rand.NewPCG(w.plan.seed, 95))}
	began := time.Now()
	for w.wait(c.moment(200 * time.Millisecond)) {
		pr := w.proxyAt(0)
		cl, err := c.ask(pr, quorum.Request{Key: "a", TTL: w.plan.maxTTL / 2, Waits: c.w.plan.mostWaits()}, false)
		if err == nil {
			c.release(cl, pr)
			began = time.Now()
			w.wait(c.moment(2 * time.Second))
		}
		if since := time.Since(began); since > w.plan.mostWaits() {
			w.ledger.wrong("a", "nothing is granted: who waits for a key that others share has waited for %v", since)
		}
	}
}

// waiterIndex is the waiter's number as a client.
const waiterIndex = 901
