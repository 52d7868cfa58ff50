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

// fadeTime is how much longer the remains of a lost lock live. An UNLOCK that is under way through
// any proxy finds its token in that time: a master holds back no answer for longer, or its lane is
// dead.
const fadeTime = 2 * time.Second

// Release takes the token away from keys on every master (the script of step 5), and reports
// whether the lock was held until now: false says that provably no majority held the token any
// more, or ever, at one of the keys. It answers as soon as that is certain, or as no master that is
// still to answer has made progress for Options.MasterTimeout, after a second at the latest. Keys of
// the token that are not named stay held.
//
// With keep, up to Options.MaxTTL, what the token held stays closed for that long, for everybody:
// the keys, or the slot, or the place among the readers. The token is dead at once. True says then
// that a majority of the masters has closed it.
//
// Whatever it returns, also when ctx has ended, the release goes on in the background on masters
// that have not answered, until the token cannot stand anywhere any more. Those who Watch a key
// are told. Errors: ErrNoQuorum (as *NoQuorumError), ErrInvalidTTL for keep, or
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
	Keep  time.Duration // what the token held stays closed for so long
	// Likely is what the token holds as far as the caller knows. If that is right, masters find it
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

// likelyTerms are the terms of a release of what is no exclusive lock.
var likelyTerms = [...]*wire.Terms{Shared: {Mode: Shared}, Limited: {Mode: Limited}, Kept: nil}

// Abandon releases a token on every master in the background, for as long as it may stand
// anywhere, and tells those who Watch the key. It is for a lease whose holder could not be told,
// or is gone.
func (q *Quorum) Abandon(key string, t Token) {
	q.release(key, t, nil, 0, func(bool, error) {})
	q.Flush()
}

// fade makes the remains of a lost lock live for at most fadeTime.
func (q *Quorum) fade(t wire.TokenAt) {
	op := wire.Op{Kind: wire.Fade, TokenAt: t, TTL: fadeTime}
	for _, l := range q.lanes {
		_ = l.Release(op, q.opts.MaxTTL, false, nil)
	}
	q.checks.forget(t)
}

// release begins a Release of one key.
func (q *Quorum) release(key string, t Token, likely *wire.Terms, keep time.Duration, done func(held bool, err error)) {
	q.enter()
	token := q.tokenAt(key, t)
	op := wire.Op{Kind: wire.Release, TokenAt: token, Publish: true, TTL: keep, Terms: likely}
	rule := decideRelease
	if keep > 0 {
		rule = decideHeld // done is what a majority has closed
	}
	u := q.newQuestion(op, rule, q.patienceFor(q.opts.MaxTTL))
	u.round.slots = keep > 0 // what a majority has closed is one slot
	u.decided = func(u *question) {
		u.releaseAgain()
		done(u.held())
		q.leave()
	}
	u.later = func(u *question, _ int) { u.releaseAgain() }
	u.ask(allMasters, func(l *master.Lane) error { return l.Release(op, q.opts.MaxTTL, false, u) })
	q.checks.forget(token) // the release is behind whatever may be late
}

// held is the result of a release.
func (x *question) held() (bool, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch x.round.verdict {
	case won:
		return true, nil
	case lost:
		return false, nil
	}
	return false, x.q.noQuorum(x.round.answers, time.Since(x.waits.begun))
}

// releaseAgain releases once more at masters that may have carried out the release, but did not
// say that they deleted our token, when the last master has answered. A SET of another proxy may
// have landed there behind our release; that proxy checks what it set, and if its check found the
// lock held then this release comes behind the SET. Where too few deleted it so far, this is left
// to the lanes that still owe the release.
func (x *question) releaseAgain() {
	x.mu.Lock()
	t, answers, deleted := x.round.tally, x.round.answers, x.round.yes()
	x.mu.Unlock()
	if t.pending > 0 || t.yes == t.n() {
		return
	}
	enough, behind, paid := t.yes >= majority(t.n()), x.round.no(), false
	for i, a := range answers {
		if _, untouched := errors.AsType[*master.UntouchedError](a.err); untouched || a.state.counts() {
			continue
		}
		others := uint64(0) // to be told if this lane deletes the token later
		if !enough {
			others = ^(deleted | 1<<i)
		}
		sent, owed := x.q.lanes[i].NotOursAt(x.op.TokenAt, others)
		if sent {
			behind |= 1 << i
		}
		paid = paid || !owed // this question it had not answered
	}
	switch {
	case enough:
		x.q.releaseAt(x.op.TokenAt, behind)
	case paid:
		x.q.releaseAt(x.op.TokenAt, ^deleted)
	}
}

// releaseAt releases a token on some masters, by their place.
func (q *Quorum) releaseAt(t wire.TokenAt, masters uint64) {
	op := wire.Op{Kind: wire.Release, TokenAt: t, Publish: true}
	for i, l := range q.lanes {
		if masters&(1<<i) != 0 {
			_ = l.Release(op, q.opts.MaxTTL, false, nil)
		}
	}
}
