package quorum

import (
	"context"
	"sync"
	"time"
)

const (
	checkAfter = 100 * time.Millisecond // a late grant is checked so much later
	checkEvery = 50 * time.Millisecond  // at the most
)

// lateGrants are the tokens that a master took after their lease was given out. Each is checked once, a little later:
// most have been released through this proxy by then, and need no check.
type lateGrants struct {
	wake chan struct{} // holds a value when queue is not empty any more

	mu    sync.Mutex
	waits map[debtKey]struct{}
	queue []lateGrant // oldest first; those that do not wait any more are skipped
}

type lateGrant struct {
	debtKey
	due time.Time
}

func (g *lateGrants) init() {
	g.wake = make(chan struct{}, 1)
	g.waits = make(map[debtKey]struct{})
}

// add makes k be checked, unless it waits for that already.
func (g *lateGrants) add(k debtKey, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, ok := g.waits[k]; ok {
		return
	}
	g.waits[k] = struct{}{}
	g.queue = append(g.queue, lateGrant{k, now.Add(checkAfter)})
	if len(g.queue) == 1 {
		select {
		case g.wake <- struct{}{}:
		default:
		}
	}
}

// forget takes k out: it has been released here.
func (g *lateGrants) forget(k debtKey) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.waits, k)
}

// due takes out what is to be checked now, and tells how long to wait for more; 0 if nothing waits.
func (g *lateGrants) due(now time.Time) (ready []debtKey, next time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	done := 0
	for ; done < len(g.queue) && !g.queue[done].due.After(now); done++ {
		k := g.queue[done].debtKey
		if _, ok := g.waits[k]; ok {
			delete(g.waits, k)
			ready = append(ready, k)
		}
	}
	rest := copy(g.queue, g.queue[done:])
	clear(g.queue[rest:])
	g.queue = g.queue[:rest]
	if rest == 0 {
		return ready, 0
	}
	return ready, max(g.queue[0].due.Sub(now), checkEvery)
}

// checkLateGrants starts the checks until ctx ends.
func (q *Quorum) checkLateGrants(ctx context.Context) {
	for {
		ready, next := q.late.due(time.Now())
		for _, k := range ready {
			q.check(k)
		}
		if next > 0 {
			sleep(ctx, next)
			if ctx.Err() != nil {
				return
			}
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-q.late.wake:
		}
	}
}

// check asks every master whether the token stands there. Where no majority can hold it any more, it was
// released through another proxy before it landed here, or its ttl is over: it is released everywhere.
func (q *Quorum) check(k debtKey) {
	c := &check{q: q, debtKey: k, pending: len(q.lanes)}
	for i, l := range q.lanes {
		if err := l.send(command{op: opCheck, to: c, key: k.key, secret: k.secret}); err != nil {
			c.gone(i, opCheck, err, false)
		}
	}
}

// check is one check under way. Nobody waits for it.
type check struct {
	q *Quorum
	debtKey

	mu      sync.Mutex
	held    int
	none    int
	pending int
	over    bool
}

var _ receiver = (*check)(nil)

func (c *check) reply(_ int, _ opKind, r *reply) {
	c.answered(r.is(1), r.kind != ':')
}

func (c *check) gone(int, opKind, error, bool) { c.answered(false, true) }

func (c *check) answered(held, none bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pending--
	switch {
	case none:
		c.none++
	case held:
		c.held++
	}
	if !c.over && c.held+c.none+c.pending < majority(len(c.q.lanes)) {
		c.over = true
		c.q.releaseEverywhere(c.debtKey, false)
	}
}
