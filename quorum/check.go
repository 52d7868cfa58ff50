package quorum

import (
	"math/bits"
	"sync"
	"time"

	"lockproxy/quorum/internal/clock"
	"lockproxy/quorum/internal/wire"
)

// checkAfter is the time between a late landing and its check, and between two checks if too few
// masters answered. This proxy has released most locks by then, and they need no check. An earlier
// check would gain little: the rest of a released token lives fadeTime more anyway.
const checkAfter = 2 * time.Second

// fadeTime is how much longer the remains of a lost lock live. An UNLOCK that is under way through
// any proxy still finds its token: a lane whose answer takes longer is dead.
const fadeTime = 2 * time.Second

// checks are the tokens that a master took after their lease was given out: by a late grant, by a
// top-up, or because an extension set the key again. Another proxy may have released the lock
// before the key landed. A check finds out.
//
// First it asks the late masters, on which the token landed. If all of them lack it, the check
// ends: they have answered all that this proxy sent them.
//
// If any master lacks the token that once held it, a late one or a voter, a proxy released it: a
// master keeps a key until the ttl has passed, and one that lost its memory is in quarantine for
// longer. Then the rest of the token fades. Where masters may vote that have lost locks, without
// the restart guard or with evictions, only a voter shows it, and only if no majority answers that
// it has the token.
//
// Otherwise the voters are asked: the masters that made the lease and were not set since. If every
// majority includes a voter that has the token, the check ends: no majority has deleted the token
// yet, and the proxy that releases it later does so once more on the masters that were set late
// (releaseAgain). Else the check is repeated.
type checks struct {
	fleet *fleet

	mu    sync.Mutex
	waits map[wire.TokenAt]*check
}

// check is one token that is due to be checked.
type check struct {
	token  wire.TokenAt
	until  time.Time       // all its keys have expired then; guarded by checks.mu
	late   uint64          // the masters on which it landed; guarded by checks.mu
	voters uint64          // the masters whose grants made the lease; guarded by checks.mu
	clock  clock.Stopwatch // since the first landing
	keeps  []time.Duration // by master that held it: until when, by clock; guarded by checks.mu
	again  bool            // something landed while masters were asked; guarded by checks.mu
	due    deadline
}

// add schedules a check of t, which has landed on the master of a lane. voters made the lease. All
// of them keep the key until the given time, unless it is zero.
func (c *checks) add(lane int, t wire.TokenAt, voters uint64, until time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if k := c.waits[t]; k != nil {
		k.late |= 1 << lane
		k.voters &= voters // one that granted and was filled since is no voter any more
		k.held(voters|1<<lane, until)
		k.again, k.until = true, now.Add(c.fleet.opts.longestLife())
		return
	}
	k := &check{token: t, until: now.Add(c.fleet.opts.longestLife()), late: 1 << lane, voters: voters,
		clock: clock.Start(), keeps: make([]time.Duration, len(c.fleet.lanes))}
	k.held(voters|1<<lane, until)
	k.due.expire = func() { c.begin(k) }
	c.waits[t] = k
	c.fleet.deadlines.set(&k.due, now.Add(checkAfter))
}

// forget cancels the check of t: this proxy releases it.
func (c *checks) forget(t wire.TokenAt) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k := c.waits[t]; k != nil {
		delete(c.waits, t)
		c.fleet.deadlines.cancel(&k.due)
	}
}

// begin asks the late masters. Unless all of them lack the token, or their answers alone prove a
// release, others judge.
func (c *checks) begin(k *check) {
	c.mu.Lock()
	k.again = false
	late := k.late
	c.mu.Unlock()
	c.ask(k, late, func(_, lacks uint64) {
		c.mu.Lock()
		released := k.verdict(^lacks, lacks, len(c.fleet.lanes), c.fleet.opts.mayForget()) == lost
		c.mu.Unlock()
		switch {
		case lacks == late:
			c.end(k, won)
		case released:
			c.end(k, lost)
		default:
			c.judge(k)
		}
	})
}

// judge asks the masters that know whether the lock is held.
func (c *checks) judge(k *check) {
	n, mayForget := len(c.fleet.lanes), c.fleet.opts.mayForget()
	c.mu.Lock()
	current, judges := c.waits[k.token] == k, k.judges(n, mayForget)
	c.mu.Unlock()
	if !current {
		return
	}
	c.ask(k, judges, func(has, lacks uint64) {
		c.mu.Lock()
		v := k.verdict(has, lacks, n, mayForget)
		c.mu.Unlock()
		c.end(k, v)
	})
}

// ask asks a set of masters whether they have the token. It calls answered with the set that has
// it and the set that lacks it.
func (c *checks) ask(k *check, masters uint64, answered func(has, lacks uint64)) {
	f := c.fleet
	x := f.newBroadcast(wire.Op{Kind: wire.Check, TokenAt: k.token}, decideAll, f.patienceFor(f.opts.MaxTTL))
	x.round.slots = true
	x.decided = func(x *broadcast) {
		x.mu.Lock()
		has, lacks := x.round.yes(), x.round.no()
		x.mu.Unlock()
		answered(has, lacks)
	}
	x.askOp(masters)
}

// end ends a check with its verdict, or schedules the next one.
func (c *checks) end(k *check, v verdict) {
	c.mu.Lock()
	current := c.waits[k.token] == k
	if current && (v == noQuorum || v == won && k.again) {
		if next := time.Now().Add(checkAfter); next.Before(k.until) {
			c.fleet.deadlines.set(&k.due, next)
			c.mu.Unlock()
			return
		}
	}
	if current {
		delete(c.waits, k.token)
	}
	c.mu.Unlock()
	if current && v == lost {
		c.fade(k.token)
	}
}

// fade makes the remains of a lost lock live for at most fadeTime.
func (c *checks) fade(t wire.TokenAt) {
	op := wire.Op{Kind: wire.Fade, TokenAt: t, TTL: fadeTime}
	for _, l := range c.fleet.lanes {
		_ = l.Release(op, c.fleet.opts.longestLife(), false, nil)
	}
	c.forget(t)
}

// held notes that a set of masters has held the token, and keeps it until then. If the machine was
// suspended since the clock started, that may be later by the clock; earlier is safe to believe.
func (k *check) held(masters uint64, until time.Time) {
	left := until.Sub(k.clock.Begun())
	for i := range k.keeps {
		if masters&(1<<i) != 0 {
			k.keeps[i] = max(k.keeps[i], left)
		}
	}
}

// keeping returns the masters that hold the token unless it was released.
func (k *check) keeping() (set uint64) {
	elapsed := k.clock.Elapsed()
	for i, until := range k.keeps {
		if elapsed < until {
			set |= 1 << i
		}
	}
	return set
}

// judges are the masters to ask whether the token is held: the voters as long as they keep their
// grants, and enough of them are left. If masters may forget, all are asked.
func (k *check) judges(n int, mayForget bool) uint64 {
	if mayForget || k.voters&^k.keeping() != 0 || n-bits.OnesCount64(k.voters) >= majority(n) {
		return allMasters
	}
	return k.voters
}

// verdict is won if the token is still held, lost if it was released, and noQuorum if the answers
// do not show which. has and lacks are the sets of the n masters that answered yes and no.
// mayForget says that a master may vote although it has lost the token.
func (k *check) verdict(has, lacks uint64, n int, mayForget bool) verdict {
	maj := majority(n)
	switch {
	case n-bits.OnesCount64(lacks) < maj:
		return lost
	case lacks&k.keeping() != 0 && !mayForget:
		return lost
	case lacks&k.keeping()&k.voters != 0 && bits.OnesCount64(has) < maj:
		return lost
	case n-bits.OnesCount64(has&k.voters) < maj:
		return won
	}
	return noQuorum
}
