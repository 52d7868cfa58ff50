package quorum

import (
	"context"
	"sync"
	"time"
)

// Extend makes a lock that is held live for ttl from now, and returns how long the holder may count on it. On
// each master it compares the token and raises the expiry, never lowers it; so a late or repeated one is harmless. It
// succeeds as soon as a majority has confirmed the token, and only then are masters that lost the key, or did
// not answer, set again: a lock that is lost is never revived. The fence stays what it is.
//
// ttl goes out in whole milliseconds, rounded down. Each master has min(Options.MasterTimeout, ttl/20), at least 2ms. The
// validity is positive: ttl less the time spent asking, less 1% of ttl, less 2ms.
//
// Errors: ErrLost, provably no majority holds the token, and what is left of it is released everywhere, after Options.MasterTimeout;
// ErrNoQuorum (as *NoQuorumError), ErrLate, context.Cause(ctx), after which the lock may have been extended or not and
// lives at least as long as before; ErrInvalidTTL.
//
// Only the secret of t decides. Safe for concurrent use.
func (q *Quorum) Extend(ctx context.Context, key string, t Token, ttl time.Duration) (validityLeft time.Duration, err error) {
	if ttl, err = q.wholeTTL(ttl); err != nil {
		return 0, err
	}
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	q.enter()
	defer q.leave()
	e := q.pools.extensions.Get().(*extension)
	e.begin(debtKey{q.opts.KeyPrefix + key, t.Secret}, ttl)
	defer e.leave()
	e.ask()
	if err := e.wait(ctx, e.timeout); err != nil {
		return 0, err
	}
	return e.decide()
}

// extendSaid is what a master said to an extension.
type extendSaid struct {
	state extendState
	err   error // extendNone: why
}

type extendState uint8

const (
	extendPending extendState = iota
	extendHeld
	extendMissing
	extendNone
)

// extension is one Extend under way. It lives until the last answer is in.
type extension struct {
	q *Quorum
	waiter
	users
	debtKey
	ttl     time.Duration
	timeout time.Duration
	clock   stopwatch

	mu      sync.Mutex
	verdict verdict
	over    bool   // Extend has answered
	kept    bool   // over, and the lock is held: masters that lack it are set
	voters  voters // kept: the masters that confirmed
	tally   extendTally
	said    []extendSaid // by master
	fence   uint64       // the largest that a master holds
	owner   string
}

var _ receiver = (*extension)(nil)

func (e *extension) begin(k debtKey, ttl time.Duration) {
	e.users.start()
	e.debtKey, e.ttl, e.timeout = k, ttl, attemptTimeout(e.q.opts.MasterTimeout, ttl)
	e.verdict, e.over, e.kept, e.fence, e.owner = open, false, false, 0, ""
	e.tally = extendTally{pending: len(e.said)}
	clear(e.said)
	e.waiter.reset()
	e.clock = startWatch()
}

// leave is called once for each user.
func (e *extension) leave() {
	if e.users.done() {
		e.debtKey, e.owner = debtKey{}, ""
		e.q.pools.extensions.Put(e)
	}
}

func (e *extension) ask() {
	for i, l := range e.q.lanes {
		e.users.add()
		if err := l.send(command{op: opExtend, to: e, key: e.key, secret: e.secret, ttl: e.ttl}); err != nil {
			e.gone(i, opExtend, err, false)
		}
	}
}

func (e *extension) reply(lane int, _ opKind, r *reply) {
	switch {
	case r.kind == '$' && !r.null:
		e.answered(lane, extendSaid{state: extendHeld}, r.text)
	case r.is(0):
		e.answered(lane, extendSaid{state: extendMissing}, "")
	default:
		e.answered(lane, extendSaid{state: extendNone, err: answered(r)}, "")
	}
	e.leave()
}

func (e *extension) gone(lane int, _ opKind, err error, _ bool) {
	e.answered(lane, extendSaid{state: extendNone, err: err}, "")
	e.leave()
}

// answered takes what a master said, whenever it comes; tail is what it holds behind the secret.
func (e *extension) answered(lane int, said extendSaid, tail string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.said[lane] = said
	e.tally.pending--
	switch said.state {
	case extendHeld:
		e.tally.held++
		if e.over {
			return
		}
		// The number that the caller names proves nothing: what is filled in is what masters hold.
		if fence, owner, ok := behindSecret(tail); ok && fence >= e.fence {
			e.fence, e.owner = fence, owner
		}
	case extendMissing:
		e.tally.missing++
	default:
		e.tally.none++
	}
	if e.kept {
		e.healLocked(lane)
	}
	if e.verdict == open && !e.over {
		if e.verdict = e.tally.decide(); e.verdict != open {
			e.signal()
		}
	}
}

// decide ends the waiting.
func (e *extension) decide() (time.Duration, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.over = true
	if e.verdict == open {
		e.verdict = e.tally.atDeadline()
	}
	switch e.verdict {
	case won:
	case lost:
		e.q.releaseRest(e.debtKey, 0)
		return 0, ErrLost
	default:
		return 0, e.noQuorumLocked()
	}
	left := validity(e.ttl, e.clock.elapsed(), drift(e.ttl))
	if left <= 0 {
		return 0, ErrLate
	}
	e.kept, e.voters = true, 0
	for i, said := range e.said {
		if said.state == extendHeld {
			e.voters.add(i)
		}
	}
	for i, said := range e.said {
		if said.state != extendPending {
			e.healLocked(i)
		}
	}
	return left, nil
}

// healLocked sets the key on a master that lacks it, or may: at once where it answers, else when it is back. What
// is set is checked, as the lock may have been released meanwhile through another proxy.
func (e *extension) healLocked(lane int) {
	d := debt{debtKey: e.debtKey, fence: e.fence, voters: e.voters, owner: e.owner, until: e.clock.start.Add(e.ttl), ttl: e.ttl}
	switch e.said[lane].state {
	case extendMissing:
		e.q.lanes[lane].fill(d)
	case extendNone:
		e.q.lanes[lane].topUp(d, false)
	}
}

func (e *extension) noQuorumLocked() error {
	none := &NoQuorumError{Answered: e.tally.held + e.tally.missing, N: len(e.said), Needed: majority(len(e.said))}
	for i, said := range e.said {
		switch said.state {
		case extendHeld, extendMissing:
			continue
		case extendPending:
			said.err = silentError(e.timeout)
		}
		none.Masters = append(none.Masters, MasterError{Index: i, Name: e.q.lanes[i].names[i], Err: said.err})
	}
	return none
}
