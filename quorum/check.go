package quorum

import (
	"container/heap"
	"context"
	"sync"
	"time"
)

const (
	checkAfter = 100 * time.Millisecond // a late grant is checked so much later
	checkEvery = 50 * time.Millisecond  // at the most
)

// lateRelease is how long a release takes at most without being repeated: so much less than checkAfter that a check
// which follows a late grant comes after it.
const lateRelease = checkAfter / 2

// recheckAfter is how long after a check that found out nothing the next one follows.
const recheckAfter = time.Second

// voters is the set of masters whose grants made a lease, by their place; those beyond the 64th are left out.
type voters uint64

func (v *voters) add(lane int)     { *v |= 1 << lane }
func (v voters) has(lane int) bool { return v&(1<<lane) != 0 }

// lateGrants are the tokens that a master took after their lease was given out. Each is checked a little later, and again while the lock is held:
// most have been released through this proxy by then, and need no check.
type lateGrants struct {
	wake chan struct{} // holds a value when queue is not empty any more

	mu    sync.Mutex
	waits map[debtKey]voters
	queue byDue // those that do not wait any more are skipped
}

// byDue is a heap, the one that is due first in front.
type byDue []lateGrant

// Len implements heap.Interface.
func (b byDue) Len() int { return len(b) }

// Less implements heap.Interface.
func (b byDue) Less(i, j int) bool { return b[i].due.Before(b[j].due) }

// Swap implements heap.Interface.
func (b byDue) Swap(i, j int) { b[i], b[j] = b[j], b[i] }

// Push implements heap.Interface.
func (b *byDue) Push(late any) { *b = append(*b, late.(lateGrant)) }

// Pop implements heap.Interface.
func (b *byDue) Pop() any {
	last := len(*b) - 1
	late := (*b)[last]
	(*b)[last] = lateGrant{}
	*b = (*b)[:last]
	return late
}

type lateGrant struct {
	debtKey
	voters voters
	until  time.Time // when what the voters lack proves nothing any more: one may have lost its memory since, and vote again
	due    time.Time
	first  time.Time // of the first check; zero before
	held   bool      // a check has found the lock held: a voter may have lost it since in other ways than by an unlock
}

func (g *lateGrants) init() {
	g.wake = make(chan struct{}, 1)
	g.waits = make(map[debtKey]voters)
}

// add makes k be checked, unless it waits for that already. until is when the ttl is over that the voters v confirmed.
func (g *lateGrants) add(k debtKey, v voters, until, now time.Time) {
	g.put(lateGrant{debtKey: k, voters: v, until: until, due: now.Add(checkAfter)})
}

func (g *lateGrants) put(late lateGrant) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if v, ok := g.waits[late.debtKey]; ok {
		g.waits[late.debtKey] = v & late.voters // one that granted and was filled since is no voter any more
		return
	}
	g.waits[late.debtKey] = late.voters
	heap.Push(&g.queue, late)
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
func (g *lateGrants) due(now time.Time) (ready []lateGrant, next time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for len(g.queue) > 0 && !g.queue[0].due.After(now) {
		late := heap.Pop(&g.queue).(lateGrant)
		if v, ok := g.waits[late.debtKey]; ok {
			late.voters = v
			delete(g.waits, late.debtKey)
			ready = append(ready, late)
		}
	}
	if len(g.queue) == 0 {
		return ready, 0
	}
	return ready, min(max(g.queue[0].due.Sub(now), checkEvery), checkAfter) // one that is due sooner may come
}

// checkLateGrants starts the checks until ctx ends.
func (q *Quorum) checkLateGrants(ctx context.Context) {
	for {
		ready, next := q.late.due(time.Now())
		for _, late := range ready {
			q.check(late)
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

// check asks every master whether the token stands there. Where no majority can hold it any more it was released through
// another proxy before it landed here, or its ttl is over: it is released everywhere. Where that is not certain, because
// too many give no answer, a voter that does not have it any more tells the same (a master keeps what it granted until
// it is released or its ttl is over); then the others are made to release it. Where nothing can be told, or the
// lock is held, another check follows.
func (q *Quorum) check(late lateGrant) {
	if late.first.IsZero() {
		late.first = time.Now()
	}
	c := &check{q: q, late: late, pending: len(q.lanes)}
	for i, l := range q.lanes {
		if err := l.send(command{op: opCheck, to: c, key: late.key, secret: late.secret}); err != nil {
			c.gone(i, opCheck, err, false)
		}
	}
}

// check is one check under way. Nobody waits for it.
type check struct {
	q    *Quorum
	late lateGrant

	mu      sync.Mutex
	held    int
	none    int
	pending int
	missed  bool // a voter has lost it
	over    bool
}

var _ receiver = (*check)(nil)

func (c *check) reply(lane int, _ opKind, r *reply) {
	c.answered(lane, r.is(1), r.kind != ':')
}

func (c *check) gone(lane int, _ opKind, _ error, _ bool) { c.answered(lane, false, true) }

func (c *check) answered(lane int, held, none bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pending--
	switch {
	case none:
		c.none++
	case held:
		c.held++
	default:
		c.missed = c.missed || c.late.voters.has(lane)
	}
	need := majority(len(c.q.lanes))
	switch {
	case c.over:
	case c.held+c.none+c.pending < need:
		// The voters are left to whoever unlocked: its release may still be on its way to one of them, and would find nothing there,
		// as if the lock had been lost before.
		c.over = true
		c.q.releaseRest(c.late.debtKey, c.late.voters)
	case c.pending > 0:
	case c.missed && c.held < need && !c.late.held && time.Now().Before(c.late.until):
		c.q.releaseRest(c.late.debtKey, c.late.voters)
	default:
		c.again()
	}
}

// again lets another check follow. A lock that a majority holds may be on its way out: the release of another proxy can have
// passed the master of the late grant and still be on its way to the others. The longer nothing comes of it the later is the next look,
// until no key of this token can be left.
func (c *check) again() {
	since := time.Since(c.late.first)
	if since < c.q.opts.MaxTTL {
		c.late.held = c.late.held || c.held >= majority(len(c.q.lanes))
		c.late.due = time.Now().Add(max(recheckAfter, since/2))
		c.q.late.put(c.late)
	}
}
