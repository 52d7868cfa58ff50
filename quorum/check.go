package quorum

import (
	"math/bits"
	"sync"
	"time"

	"lockproxy/quorum/internal/wire"
)

const (
	checkAfter   = 100 * time.Millisecond // most locks are released through this proxy by then, and need no check
	recheckAfter = 2 * time.Second        // where too many masters were silent
)

// checks are the tokens that a master took after their lease was given out: by a late grant, by a
// top-up, or as an extension set the key again. The lock may have been released through another
// proxy before that landed. One check finds out.
//
// The voters tell: the masters that made the lease, where nothing was set since. If one of them
// lacks the token, somebody released it: a master keeps what it granted until its ttl is over, and
// one that lost its memory is in quarantine for longer. Then what is left of the token fades. If
// so many of them have it that every majority includes one, the check is over: no majority has
// deleted the token yet, and whoever releases it from here on does so once more where it was set
// late (releaseAgain). Otherwise the check comes again.
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
	again  bool      // something landed while the masters were asked; guarded by checks.mu
	due    deadline
}

// add makes t be checked, unless it waits for that already. voters made the lease, which lasts
// until then.
func (c *checks) add(t wire.TokenAt, voters uint64, until time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if k := c.waits[t]; k != nil {
		k.voters &= voters // one that granted and was filled since is no voter any more
		k.again, k.until = true, now.Add(c.q.opts.MaxTTL)
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
	c.mu.Lock()
	k.again = false
	c.mu.Unlock()
	q := c.q
	x := q.newQuestion(wire.Op{Kind: wire.Check, TokenAt: k.token}, decideAll, q.patienceFor(q.opts.MaxTTL))
	x.round.slots = true
	x.decided = func(x *question) {
		x.mu.Lock()
		has, lacks := x.round.yes(), x.round.no()
		x.mu.Unlock()
		c.decided(k, has, lacks)
	}
	x.askOp()
}

// decided acts on what the masters said that were asked.
func (c *checks) decided(k *check, has, lacks uint64) {
	c.mu.Lock()
	v := k.verdict(has, lacks, len(c.q.lanes), c.q.opts.Guard)
	current := c.waits[k.token] == k
	if current && (v == noQuorum || v == won && k.again) {
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

// verdict says whether the token is held still (won), was released (lost), or nobody can tell
// (noQuorum). Of n masters, has are those that answered that they have it, lacks those that
// answered that they do not. Without the restart guard a master that lacks it may have lost its
// memory.
func (k *check) verdict(has, lacks uint64, n int, guard Guard) verdict {
	maj := majority(n)
	switch {
	case n-bits.OnesCount64(lacks) < maj:
		return lost
	case lacks&k.voters != 0 && time.Now().Before(k.voted) && (guard != GuardOff || bits.OnesCount64(has) < maj):
		return lost
	case n-bits.OnesCount64(has&k.voters) < maj:
		return won
	}
	return noQuorum
}
