package quorum

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"lockproxy/quorum/internal/master"
	"lockproxy/quorum/internal/wire"
)

// Release takes the token away from keys on every master (the script of step 5), and reports
// whether the lock was held until now: false says that provably no majority held the token any
// more, or ever, at one of the keys. It answers as soon as that is certain, or as no master that
// is still to answer has made progress for Options.MasterTimeout, after a second at the latest.
// Keys of the token that are not named stay held.
//
// With keep, up to Options.MaxTTL, the keys stay closed to all clients for that long; of a
// Limited lock only the slot, of a Shared lock only the place of one reader. The token is dead at
// once. True then says that a majority of the masters has closed it.
//
// After any result, also when ctx has ended, the release goes on in the background on masters that
// have not answered, until no master can hold the token any more. Callers of Watch are notified.
// Errors: ErrNoQuorum (as *NoQuorumError), ErrInvalidTTL for keep, or
// context.Cause(ctx).
//
// Only the secret of t decides. Safe for concurrent use.
func (q *Quorum) Release(ctx context.Context, keys []string, t Token, keep time.Duration) (bool, error) {
	held, _, err := Await(ctx, q.Flush, func(done func(bool, error)) {
		q.ReleaseAsync(ReleaseRequest{Key: keys[0], Keys: keys[1:], Token: t, Keep: keep}, done)
	})
	return held, err
}

// ReleaseRequest says what ReleaseAsync releases.
type ReleaseRequest struct {
	Key   string
	Keys  []string // further keys of the token
	Token Token
	Keep  time.Duration // the key, slot or place of the token stays closed for so long
	// Likely is the mode of the lock as far as the caller knows. If that is right, masters find it
	// with less work. It matters only for a release of one key.
	Likely Mode
}

// ReleaseAsync is Release for a caller that must not block; see AcquireAsync.
func (q *Quorum) ReleaseAsync(r ReleaseRequest, done func(held bool, err error)) {
	if r.Keep > q.opts.MaxTTL {
		done(false, fmt.Errorf("%w: %v, want at most %v", ErrInvalidTTL, r.Keep, q.opts.MaxTTL))
		return
	}
	if len(r.Keys) == 0 {
		q.release(r.Key, r.Token, likelyTerms[r.Likely], r.Keep, done)
		return
	}
	held, failed := true, error(nil)
	each := gather(1+len(r.Keys), func(h bool, err error) { held, failed = held && h, cmp.Or(failed, err) },
		func() { done(held, failed) })
	q.release(r.Key, r.Token, nil, r.Keep, each)
	for _, key := range r.Keys {
		q.release(key, r.Token, nil, r.Keep, each)
	}
}

// likelyTerms are the terms of a release by mode; nil for an exclusive lock.
var likelyTerms = [...]*wire.Terms{Shared: {Mode: Shared}, Limited: {Mode: Limited}, Kept: nil}

// Abandon releases a token on every master in the background, until no master can hold it any
// more, and notifies callers of Watch. It is for a lease whose holder has left or did not get the
// reply.
func (q *Quorum) Abandon(key string, t Token) {
	q.release(key, t, nil, 0, func(bool, error) {})
	q.Flush()
}

// release begins a Release of one key.
func (q *Quorum) release(
	key string, t Token, likely *wire.Terms, keep time.Duration, done func(held bool, err error),
) {
	q.releaseRound(key, t, likely, keep, func(u *broadcast) { done(u.held()) })
}

// releaseRound is release, and calls done with the round, which is decided.
func (q *Quorum) releaseRound(
	key string, t Token, likely *wire.Terms, keep time.Duration, done func(u *broadcast),
) {
	q.calls.enter()
	token := q.fleet.tokenAt(key, t)
	op := wire.Op{Kind: wire.Release, TokenAt: token, Publish: true, TTL: keep, Terms: likely}
	rule := decideRelease
	if keep > 0 {
		rule = decideHeld // a majority has to close it
	}
	u := q.fleet.newBroadcast(op, rule, q.fleet.patienceFor(q.opts.MaxTTL))
	u.round.slots = keep > 0 // a majority has to close the same slot
	u.decided = func(u *broadcast) {
		u.releaseAgain()
		done(u)
		q.calls.leave()
	}
	u.later = func(u *broadcast, _ int) { u.releaseAgain() }
	u.ask(allMasters, func(l *master.Lane) error { return l.Release(op, q.opts.longestLife(), false, u) })
	q.checks.forget(token) // the release travels after every SET that may land late
}

// held returns the result of a release.
func (x *broadcast) held() (bool, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch x.round.verdict {
	case won:
		return true, nil
	case lost:
		return false, nil
	}
	return false, x.fleet.noQuorum(x.round.answers, time.Since(x.waits.begun))
}

// releaseAgain runs when the last master has answered. It releases once more at masters that may
// have carried out the release, but did not confirm that they deleted our token. A SET of another
// proxy may have landed there after our release. That proxy checks its SET; if its check found
// the lock held, then this release comes after the SET. If too few masters have deleted the token
// so far, this is left to the lanes on which the release is still pending.
func (x *broadcast) releaseAgain() {
	x.mu.Lock()
	t, answers, deleted := x.round.tally, x.round.answers, x.round.yes()
	x.mu.Unlock()
	if t.pending > 0 || t.yes == t.n() {
		return
	}
	enough, repeat, answeredLate := t.yes >= majority(t.n()), x.round.no(), false
	for i, a := range answers {
		if _, untouched := errors.AsType[*master.UntouchedError](a.err); untouched || a.state.counts() {
			continue
		}
		others := uint64(0) // to release again if this lane deletes the token later
		if !enough {
			others = ^(deleted | 1<<i)
		}
		sent, pending := x.fleet.lanes[i].NoteUnconfirmed(x.op.TokenAt, others)
		if sent {
			repeat |= 1 << i
		}
		answeredLate = answeredLate || !pending // carried out, although the round counted no answer
	}
	switch {
	case enough:
		x.fleet.releaseAt(x.op.TokenAt, repeat)
	case answeredLate:
		x.fleet.releaseAt(x.op.TokenAt, ^deleted)
	}
}
