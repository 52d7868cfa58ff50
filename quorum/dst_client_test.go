package quorum

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

// clientPlan is how the clients of a run behave.
type clientPlan struct {
	keys     int
	ttl      [2]time.Duration
	think    time.Duration // between two locks, at most
	abandon  float64       // share of calls whose client hangs up
	forget   float64       // share of leases that are not given back
	elsewere float64       // share of calls through another proxy
	extend   float64       // share of leases that are extended
}

// simClient locks, extends and unlocks until the world stops it.
type simClient struct {
	w      *world
	index  int
	random *rand.Rand
}

// moment is a random duration up to most, or a little longer: it ends at an instant that only this client has.
func (c *simClient) moment(most time.Duration) time.Duration {
	return c.w.own(time.Duration(c.random.Int64N(max(int64(most), 0)+1)), 1000+c.index)
}

func (c *simClient) chance(p float64) bool { return c.random.Float64() < p }

// run is the life of a client.
func (c *simClient) run() {
	for c.w.wait(c.moment(c.w.plan.clients.think)) {
		pr := c.proxy()
		if pr == nil || c.w.idle.Load() {
			continue
		}
		c.once(pr)
	}
}

// proxy is the client's own, or another; nil if that is not there at the moment.
func (c *simClient) proxy() *simProxy {
	place := c.index % len(c.w.places)
	if c.chance(c.w.plan.clients.elsewere) {
		place = c.random.IntN(len(c.w.places))
	}
	return c.w.proxyAt(place)
}

// once takes one lock, holds it and gives it back, or not.
func (c *simClient) once(pr *simProxy) {
	plan := c.w.plan.clients
	key := string(rune('a' + c.random.IntN(plan.keys)))
	ttl := plan.ttl[0] + time.Duration(c.random.Int64N(int64(plan.ttl[1]-plan.ttl[0])+1))
	for tries := 1 + c.random.IntN(3); tries > 0; tries-- {
		cl, err := c.acquire(pr, key, ttl)
		if err == nil {
			c.hold(cl, pr)
			return
		}
		held, ok := errors.AsType[*HeldError](err)
		switch {
		case !ok || held.Free < 0 || c.chance(0.3):
			return
		case c.chance(0.3):
			// At once.
		case !c.w.wait(min(held.Free, c.w.plan.maxTTL)) || !c.w.wait(c.moment(time.Millisecond/2)):
			return
		}
	}
}

var errCrashed = errors.New("the proxy crashed before it answered")

// acquire is one Acquire. The lease of a proxy that has crashed never got to the client.
func (c *simClient) acquire(pr *simProxy, key string, ttl time.Duration) (*claim, error) {
	time.Sleep(c.moment(0))
	ctx, cancel := c.patience(c.w.plan.clients.abandon)
	defer cancel()
	c.w.trace.add(event{what: "LOCK", proxy: pr.serial, master: -1, client: c.index, key: key, d: ttl})
	began, before := time.Now(), c.w.ledger.highest(key)
	lease, err := pr.q.Acquire(ctx, Request{Key: key, TTL: ttl})
	c.w.ledger.took(key, "Acquire", began, c.w.plan.mostAcquire())
	if err == nil && c.w.crashed(pr) {
		err = errCrashed
	}
	e := event{what: "LOCK ends", proxy: pr.serial, master: -1, client: c.index, key: key}
	if err != nil {
		e.more = err.Error()
		c.w.trace.add(e)
		return nil, err
	}
	e.what, e.secret, e.d = "LOCKED", lease.Token.Secret, lease.Validity
	c.w.trace.add(e)
	return c.w.ledger.granted(c.index, key, lease, before), nil
}

// patience is a context that ends early for some calls.
func (c *simClient) patience(share float64) (context.Context, context.CancelFunc) {
	if c.chance(share) {
		return context.WithTimeout(context.Background(), c.moment(40*time.Millisecond))
	}
	return context.WithCancel(context.Background())
}

// hold is what a client does with its lock.
func (c *simClient) hold(cl *claim, pr *simProxy) {
	plan := c.w.plan.clients
	for rounds := 4; rounds > 0 && c.chance(plan.extend); rounds-- {
		until := time.Until(cl.end)
		if c.chance(0.15) {
			until *= 3 // perhaps another has had the lock by then
		}
		if !c.w.wait(c.moment(until)) {
			break
		}
		c.extend(cl, c.through(pr))
		if !cl.end.After(time.Now()) && c.chance(0.5) {
			return
		}
	}
	left := max(time.Until(cl.end), 0)
	switch {
	case c.chance(plan.forget):
		c.w.wait(c.moment(left))
		return
	case c.chance(0.3):
		// Given back at once.
	default:
		c.w.wait(c.moment(min(left, c.w.plan.mostHold)))
	}
	c.release(cl, c.through(pr))
	if c.chance(0.05) {
		c.release(cl, c.through(pr))
	}
}

// through is the proxy for the next call about a lease that pr gave.
func (c *simClient) through(pr *simProxy) *simProxy {
	if other := c.proxy(); other != nil && c.chance(c.w.plan.clients.elsewere) {
		return other
	}
	if now := c.w.proxyAt(pr.place); now != nil {
		return now
	}
	return pr
}

// extend is one Extend.
func (c *simClient) extend(cl *claim, pr *simProxy) {
	plan := c.w.plan.clients
	ttl := plan.ttl[0] + time.Duration(c.random.Int64N(int64(plan.ttl[1]-plan.ttl[0])+1))
	time.Sleep(c.moment(0))
	ctx, cancel := c.patience(plan.abandon)
	defer cancel()
	began, highest := time.Now(), c.w.ledger.highest(cl.key)
	c.w.trace.add(event{what: "EXTEND", proxy: pr.serial, master: -1, client: c.index, key: cl.key, secret: cl.token.Secret, d: ttl})
	left, err := pr.q.Extend(ctx, cl.key, cl.token, ttl)
	c.w.ledger.took(cl.key, "Extend", began, c.w.plan.mostWait())
	if err == nil && c.w.crashed(pr) {
		err = errCrashed
	}
	e := event{what: "EXTENDED", proxy: pr.serial, master: -1, client: c.index, key: cl.key, secret: cl.token.Secret, d: left}
	if err != nil {
		e.what, e.more = "EXTEND ends", err.Error()
	}
	c.w.trace.add(e)
	switch {
	case err == nil:
		c.w.ledger.extended(cl, began, highest, left)
	case errors.Is(err, ErrLost) && !c.w.crashed(pr):
		c.w.ledger.lost(cl, cl.end, "Extend")
	}
}

// release is one Release, or Abandon.
func (c *simClient) release(cl *claim, pr *simProxy) {
	time.Sleep(c.moment(0))
	end := c.w.ledger.gives(cl)
	c.w.trace.add(event{what: "UNLOCK", proxy: pr.serial, master: -1, client: c.index, key: cl.key, secret: cl.token.Secret})
	if c.chance(0.05) {
		pr.q.Abandon(cl.key, cl.token)
		return
	}
	ctx, cancel := c.patience(c.w.plan.clients.abandon)
	defer cancel()
	began := time.Now()
	ok, err := pr.q.Release(ctx, cl.key, cl.token)
	c.w.ledger.took(cl.key, "Release", began, c.w.plan.mostWait())
	e := event{what: "UNLOCKED", proxy: pr.serial, master: -1, client: c.index, key: cl.key, secret: cl.token.Secret}
	if err != nil {
		e.more = err.Error()
	} else if !ok {
		e.more = "lost"
	}
	c.w.trace.add(e)
	if err == nil && !ok && !c.w.crashed(pr) {
		c.w.ledger.lost(cl, end, "Release")
	}
}
