package quorum

import (
	"sync"
	"time"

	"lockproxy/quorum/internal/wire"
)

const (
	checkAfter   = 100 * time.Millisecond // most locks are released through this proxy by then, and need no check
	recheckAfter = 2 * time.Second        // where too many masters were silent
)

// checks are the tokens that a master took after their lease was given out: a late grant, a top-up, a fill.
// The lock may have been released through another proxy before that landed. One check finds out: where
// provably no majority holds the token, what is left of it fades. If the check finds the lock held, a
// release that follows is behind what landed, or is repeated by its proxy (releaseAgain). Where too many
// masters are silent, a voter that lacks the token tells that it was released: a master keeps what it
// granted until its ttl is over, and one that lost its memory is longer in quarantine.
type checks struct {
	q *Quorum

	mu    sync.Mutex
	waits map[wire.TokenAt]*check
}

// check is one token that waits to be checked.
type check struct {
	token  wire.TokenAt
	until  time.Time // no key of it can be left then; guarded by checks.mu
	voters uint64    // the masters whose grants made the lease; guarded by checks.mu
	voted  time.Time // when the ttl is over that they confirmed
	asked  bool      // it has been asked; guarded by checks.mu
	again  bool      // something has landed since then; guarded by checks.mu
	due    deadline
}

func (c *checks) init(q *Quorum) {
	c.q = q
	c.waits = make(map[wire.TokenAt]*check)
}

// add makes t be checked, unless it waits for that already. voters made the lease, which lasts until then.
func (c *checks) add(t wire.TokenAt, voters uint64, until time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if k := c.waits[t]; k != nil {
		k.voters &= voters // one that granted and was filled since is no voter any more
		k.until, k.again = now.Add(c.q.opts.MaxTTL), k.asked
		return
	}
	k := &check{token: t, until: now.Add(c.q.opts.MaxTTL), voters: voters, voted: until}
	k.due.expire = func() { c.ask(k) }
	c.waits[t] = k
	c.q.deadlines.set(&k.due, now.Add(checkAfter))
}

// forget takes t out: it is released here.
func (c *checks) forget(t wire.TokenAt) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k := c.waits[t]; k != nil {
		delete(c.waits, t)
		c.q.deadlines.cancel(&k.due)
	}
}

// ask asks every master whether the token stands there.
func (c *checks) ask(k *check) {
	q := c.q
	c.mu.Lock()
	k.asked, k.again = true, false
	c.mu.Unlock()
	x := q.newQuestion(wire.Op{Kind: wire.Check, TokenAt: k.token}, decideHeld, max(q.opts.MasterTimeout, minAttempt))
	x.decided = func(x *question) {
		x.mu.Lock()
		v, missing := x.round.verdict, x.round.no()
		x.mu.Unlock()
		c.decided(k, v, missing)
	}
	x.askOp()
}

// decided acts on the verdict of a check; missing are the masters without the token. A check that a majority
// did not answer follows later, unless a voter is missing, and so it does where something has landed meanwhile.
func (c *checks) decided(k *check, v verdict, missing uint64) {
	c.mu.Lock()
	if v == noQuorum && missing&k.voters != 0 && time.Now().Before(k.voted) {
		v = lost
	}
	if v == won && k.again {
		v = noQuorum // its master may have been asked before
	}
	current := c.waits[k.token] == k
	if current && v == noQuorum {
		if next := time.Now().Add(recheckAfter); next.Before(k.until) {
			c.q.deadlines.set(&k.due, next)
			c.mu.Unlock()
			return
		}
	}
	if current {
		delete(c.waits, k.token)
	}
	c.mu.Unlock()
	if current && v == lost {
		c.q.fade(k.token)
	}
}
