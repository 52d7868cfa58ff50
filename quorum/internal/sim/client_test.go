package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"lockproxy/quorum"
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
	soon     bool          // extended after as short a time as locks are held
	batch    float64       // share of locks that are taken and given back together with others
	own      bool          // each client has a key of its own
	grid     time.Duration // locks end at multiples of it; 0: anyhow
	stays    float64       // share of locks that last for max-ttl, with a grid
	kinds    kindsPlan
	adopted  adoptedPlan
}

// simClient locks, extends and unlocks until the world stops it.
type simClient struct {
	w      *world
	index  int
	keys   int // locked so far, of its own
	random *rand.Rand
}

// moment is a random duration up to most, or a little longer: it ends at an instant that only this
// client has.
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
	if plan.adopted.values > 0 && !c.chance(plan.adopted.tokens) {
		c.adopted(pr)
		return
	}
	want := c.want(c.key())
	if c.chance(plan.batch) {
		c.several(pr)
		return
	}
	for tries := 1 + c.random.IntN(3); tries > 0; tries-- {
		cl, err := c.acquire(pr, want)
		if err == nil {
			c.hold(cl, pr)
			return
		}
		held, ok := errors.AsType[*quorum.HeldError](err)
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

// key is what to lock.
func (c *simClient) key() string {
	if c.w.plan.clients.own {
		c.keys++
		return fmt.Sprintf("own-%d-%d", c.index, c.keys%16)
	}
	return string(rune('a' + c.random.IntN(c.w.plan.clients.keys)))
}

func (c *simClient) ttl() time.Duration {
	plan := &c.w.plan.clients
	ttl := plan.ttl[0] + time.Duration(c.random.Int64N(int64(plan.ttl[1]-plan.ttl[0])+1))
	switch {
	case plan.grid == 0:
		return ttl
	case c.chance(plan.stays):
		return c.w.plan.maxTTL
	}
	over := time.Duration(time.Now().Add(ttl).UnixNano()) % plan.grid
	return ttl - over + plan.grid
}

var errCrashed = errors.New("the proxy crashed before it answered")

// acquire is one Acquire. The lease of a proxy that has crashed never got to the client.
func (c *simClient) acquire(pr *simProxy, want quorum.Request) (*claim, error) {
	return c.ask(pr, want, c.chance(c.w.plan.clients.abandon))
}

// ask is one Acquire, of a client that hangs up early or does not.
func (c *simClient) ask(pr *simProxy, want quorum.Request, hasty bool) (*claim, error) {
	time.Sleep(c.moment(0))
	ctx, cancel := c.patience(hasty)
	defer cancel()
	call := c.asks(pr, want)
	lease, err := pr.q.Acquire(ctx, want)
	return call.end(lease, err)
}

// simCall is an Acquire under way.
type simCall struct {
	c      *simClient
	pr     *simProxy
	want   quorum.Request
	began  time.Time
	before uint64
}

// asks is called before an Acquire.
func (c *simClient) asks(pr *simProxy, want quorum.Request) *simCall {
	c.w.trace.add(event{what: "LOCK", proxy: pr.serial, master: -1, client: c.index, key: want.Key, d: want.TTL,
		more: kindText(want)})
	c.w.ledger.asks()
	c.w.crowd.asks(want.Key)
	return &simCall{c, pr, want, time.Now(), c.w.ledger.highest(want.Key)}
}

// end is called when it has returned.
func (a *simCall) end(lease quorum.Lease, err error) (*claim, error) {
	w := a.c.w
	w.ledger.took(a.want.Key, "Acquire", a.began, mostAcquire(a.want.TTL)+w.plan.load.patience)
	w.crowd.answered("LOCK", a.want.Key, a.began, err)
	if err == nil && w.crashed(a.pr) {
		err = errCrashed
	}
	e := event{what: "LOCK ends", proxy: a.pr.serial, master: -1, client: a.c.index, key: a.want.Key}
	if err != nil {
		e.more = err.Error()
		w.trace.add(e)
		if held, ok := errors.AsType[*quorum.HeldError](err); ok {
			w.saidFree(a.want.Key, held.Free)
		}
		return nil, err
	}
	e.what, e.secret, e.d = "LOCKED", lease.Token.Secret, lease.Validity
	e.more = slotText(a.want, lease)
	w.trace.add(e)
	cl := w.ledger.granted(a.c.index, a.want, lease, a.before, a.began)
	cl.proxy = a.pr.serial
	if a.want.Value != "" {
		w.ledger.adopted(cl, a.want.Value, a.began)
	}
	return cl, nil
}

// patience is a context that ends early for a hasty client.
func (c *simClient) patience(hasty bool) (context.Context, context.CancelFunc) {
	if hasty {
		return context.WithTimeout(context.Background(), c.moment(40*time.Millisecond))
	}
	return context.WithCancel(context.Background())
}

// hold extends the lock, keeps it for a while and gives it back, or does not.
func (c *simClient) hold(cl *claim, pr *simProxy) {
	plan := c.w.plan.clients
	for rounds := 4; rounds > 0 && c.chance(plan.extend); rounds-- {
		until := time.Until(cl.end)
		if plan.soon {
			until = min(until, c.w.plan.mostHold)
		} else if c.chance(0.15) {
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
	ttl := c.ttl()
	time.Sleep(c.moment(0))
	ctx, cancel := c.patience(c.chance(c.w.plan.clients.abandon))
	defer cancel()
	began, highest := time.Now(), c.w.ledger.highest(cl.key)
	c.w.trace.add(event{what: "EXTEND", proxy: pr.serial, master: -1, client: c.index, key: cl.key,
		secret: cl.token.Secret, d: ttl})
	left, err := c.extendAs(ctx, cl, pr, ttl)
	most := attemptTime(ttl)
	if until, hasty := ctx.Deadline(); hasty { // masters have until then
		most = max(most, until.Sub(began))
	}
	c.w.ledger.took(cl.key, "Extend", began, most)
	c.w.crowd.answered("EXTEND", cl.key, began, err)
	if err == nil && c.w.crashed(pr) {
		err = errCrashed
	}
	e := event{what: "EXTENDED", proxy: pr.serial, master: -1, client: c.index, key: cl.key, secret: cl.token.Secret,
		d: left}
	if err != nil {
		e.what, e.more = "EXTEND ends", err.Error()
	}
	c.w.trace.add(e)
	switch {
	case err == nil:
		c.w.ledger.extended(cl, began, highest, left)
	case errors.Is(err, quorum.ErrLost) && !c.w.crashed(pr):
		c.w.ledger.lost(cl, cl.end, "Extend")
	}
}

// release is one Release, or Abandon.
func (c *simClient) release(cl *claim, pr *simProxy) {
	time.Sleep(c.moment(0))
	call := c.gives(cl, pr)
	if c.chance(0.05) {
		for _, key := range cl.keys {
			pr.q.Abandon(key, cl.token)
		}
		return
	}
	ctx, cancel := c.patience(c.chance(c.w.plan.clients.abandon))
	defer cancel()
	if c.w.plan.clients.kinds.none() {
		call.finish(pr.q.Release(ctx, cl.keys, cl.token, 0))
		return
	}
	c.releaseAs(ctx, call)
}

// giving is a Release under way.
type giving struct {
	c     *simClient
	cl    *claim
	pr    *simProxy
	began time.Time
	end   time.Time // of the validity, had the client kept the lock
}

// gives is called before a Release.
func (c *simClient) gives(cl *claim, pr *simProxy) *giving {
	end := c.w.ledger.gives(cl, pr.serial)
	c.w.trace.add(event{what: "UNLOCK", proxy: pr.serial, master: -1, client: c.index, key: cl.key,
		secret: cl.token.Secret})
	return &giving{c, cl, pr, time.Now(), end}
}

// finish is called when it has returned.
func (g *giving) finish(ok bool, err error) {
	w := g.c.w
	w.ledger.took(g.cl.key, "Release", g.began, w.plan.mostWait())
	w.crowd.answered("UNLOCK", g.cl.key, g.began, err)
	e := event{what: "UNLOCKED", proxy: g.pr.serial, master: -1, client: g.c.index, key: g.cl.key,
		secret: g.cl.token.Secret}
	if err != nil {
		e.more = err.Error()
	} else if !ok {
		e.more = "lost"
	}
	w.trace.add(e)
	if err == nil && !ok && !w.crashed(g.pr) {
		w.ledger.lost(g.cl, g.end, "Release")
	}
}
