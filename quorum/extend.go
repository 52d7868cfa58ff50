package quorum

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"lockproxy/quorum/internal/clock"
	"lockproxy/quorum/internal/master"
	"lockproxy/quorum/internal/wire"
)

// Extend makes a held lock live for ttl from now, and returns how long the holder may count on
// it. keys are all those of the token. On each master it compares the token and raises the
// expiry, never lowers it. So an extension that comes late or twice is harmless. It succeeds as
// soon as a majority has confirmed the token, at each key. Only then is the key set again on
// masters that lost it or did not answer: a lost lock never comes back. The fence does not
// change.
//
// With share it makes an exclusive lock of one key a shared one, with the same token and fence.
// Holders that join it have a greater fence. Clients that wait for the key are notified. The lock
// may be shared from the call on, also after an error. A token that is shared already is
// extended.
//
// ttl goes out in whole milliseconds, rounded down. The masters have as long as those of Acquire,
// and longer where ctx has a later deadline: until then. The validity is positive: ttl less the
// time spent asking, less 1% of ttl, less 2ms.
//
// Errors: ErrLost, provably no majority holds the token at one of the keys, and its remains fade
// everywhere; ErrNoQuorum (as *NoQuorumError), ErrLate, context.Cause(ctx), after which the lock
// may have been extended or not and lives at least as long as before, even if one of its keys was
// released after ctx ended; ErrInvalidTTL; ErrWrongMode, the token has a slot and cannot be
// shared.
//
// Only the secret of t decides. Safe for concurrent use.
func (q *Quorum) Extend(
	ctx context.Context, keys []string, t Token, ttl time.Duration, share bool,
) (time.Duration, error) {
	return AwaitValidity(ctx, q.Flush, func(done func(time.Duration, error)) {
		q.ExtendAsync(ctx, ExtendRequest{Key: keys[0], Keys: keys[1:], Token: t, TTL: ttl, Share: share}, done)
	})
}

// ExtendRequest says what ExtendAsync extends.
type ExtendRequest struct {
	Key   string
	Keys  []string // the other keys of the token
	Token Token
	TTL   time.Duration
	Share bool // make an exclusive lock a shared one
}

// ExtendAsync is Extend for a caller that must not block; see AcquireAsync. When ctx has ended it
// goes on, but leaves the other keys of a lost lock alone.
func (q *Quorum) ExtendAsync(ctx context.Context, r ExtendRequest, done func(time.Duration, error)) {
	kind := wire.Extend
	if r.Share {
		kind = wire.Share
	}
	timeout := time.Duration(0)
	if deadline, ok := ctx.Deadline(); ok {
		timeout = time.Until(deadline)
	}
	since := clock.Start() // one clock for all keys: the shortest validity counts for them
	if len(r.Keys) == 0 {
		q.extend(kind, r.Key, r.Token, r.TTL, timeout, since, done)
		return
	}
	var failed error
	left := r.TTL
	each := gather(1+len(r.Keys), func(validity time.Duration, err error) {
		left = min(left, validity)
		if failed == nil || errors.Is(err, ErrLost) {
			failed = err
		}
	}, func() {
		if errors.Is(failed, ErrLost) {
			if ctx.Err() != nil {
				done(0, context.Cause(ctx))
				return
			}
			q.fadeAll(r)
		}
		if failed != nil {
			left = 0
		}
		done(left, failed)
	})
	q.extend(kind, r.Key, r.Token, r.TTL, timeout, since, each)
	for _, key := range r.Keys {
		q.extend(kind, key, r.Token, r.TTL, timeout, since, each)
	}
}

// fadeAll makes the remains of a lost lock fade at all its keys.
func (q *Quorum) fadeAll(r ExtendRequest) {
	q.checks.fade(q.fleet.tokenAt(r.Key, r.Token))
	for _, key := range r.Keys {
		q.checks.fade(q.fleet.tokenAt(key, r.Token))
	}
}

// extension is one Extend under way.
type extension struct {
	*broadcast
	q      *Quorum
	clock  clock.Stopwatch // since step 1
	done   func(time.Duration, error)
	mode   Mode   // of the lock on the masters; Shared if any says so
	kept   bool   // it has succeeded: masters that lack the token are set. Guarded by mu
	voters uint64 // kept: the masters that confirmed
}

// extend begins an Extend of one key, of kind Extend or Share. The masters have timeout at least,
// and the validity counts from since.
func (q *Quorum) extend(kind wire.OpKind, key string, t Token, ttl, timeout time.Duration, since clock.Stopwatch,
	done func(time.Duration, error)) {
	whole, err := q.opts.wholeTTL(ttl)
	if err != nil {
		done(0, err)
		return
	}
	q.calls.enter()
	e := &extension{q: q, done: done, clock: since}
	waits := q.fleet.patienceFor(whole)
	waits.least, waits.quiet, waits.most = max(waits.least, timeout), max(waits.quiet, timeout), max(waits.most, timeout)
	op := wire.Op{Kind: kind, TokenAt: q.fleet.tokenAt(key, t), TTL: whole}
	e.broadcast = q.fleet.newBroadcast(op, decideHeld, waits)
	e.op.Counter = wire.CounterOf(e.op.Key)
	e.round.slots = true
	e.decided, e.later = e.decide, e.refill
	e.askOp(allMasters)
}

// decide acts on the verdict.
func (e *extension) decide(*broadcast) {
	var err error
	left := time.Duration(0)
	e.mu.Lock()
	switch e.round.verdict {
	case won:
		// Taken after everything else that had to happen (step 4).
		if left = validity(e.op.TTL, e.clock.Elapsed(), drift(e.op.TTL)); left <= 0 {
			left, err = 0, ErrLate
			break
		}
		e.kept, e.voters = true, e.round.yes()
		e.rememberLocked()
		for i := range e.round.answers {
			e.refillLocked(i)
		}
	case lost:
		err = ErrLost
	default:
		err = e.fleet.noQuorum(e.round.answers, time.Since(e.waits.begun))
		if slices.ContainsFunc(e.round.answers, func(a answer) bool { return a.wrongMode }) {
			err = ErrWrongMode
		}
	}
	e.mu.Unlock()
	if err == ErrLost {
		e.q.checks.fade(e.op.TokenAt)
	}
	e.done(left, err)
	e.q.calls.leave()
}

// rememberLocked notes the fence, owner and mode that masters hold with the secret. It ignores
// the fence that the caller named, which is no proof. A fence over the limit of counters does not
// become a floor.
func (e *extension) rememberLocked() {
	for _, a := range e.round.answers {
		if a.state != answerYes {
			continue
		}
		if a.fence >= e.op.Fence {
			e.op.Fence, e.op.Owner = a.fence, cmp.Or(a.owner, e.op.Owner)
		}
		e.mode = max(e.mode, a.mode)
		if a.fence <= wire.FenceLimit(e.waits.begun) {
			e.q.floor.Raise(a.fence)
		}
	}
}

// refill handles an answer that comes after the verdict.
func (e *extension) refill(_ *broadcast, lane int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.kept {
		e.refillLocked(lane)
	}
}

// refillLocked sets the key on a master that lacks it, or may lack it: at once if the master
// answers, else when it is back. A check follows, because another proxy may have released the
// lock meanwhile.
func (e *extension) refillLocked(lane int) {
	if s := e.round.answers[lane].state; s != answerPending && s != answerYes {
		e.fleet.lanes[lane].TopUp(master.TopUp{TokenAt: e.op.TokenAt, Fence: e.op.Fence, Owner: e.op.Owner, Mode: e.mode,
			Slot: e.round.slot, Voters: e.voters, Voted: keptUntil(e.waits.begun, e.op.TTL),
			TTL: e.op.TTL, Until: e.waits.begun.Add(e.op.TTL), Since: e.clock, Lacks: s == answerNo})
	}
}
