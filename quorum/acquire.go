package quorum

import (
	"context"
	"fmt"
	"sync"
	"time"

	"lockproxy/quorum/internal/wire"
)

// Acquire asks every master to grant r.Key to a fresh token for r.TTL, and returns the lease:
// token, fence and how long the holder may count on it.
//
// It is steps 1 to 5, except that step 2 asks all masters at once instead of in turn and that step
// 3 ends as soon as it is certain. When several clients split the vote it tries again a few times,
// each time with another token and after a random delay. A key that stands on a master in any form
// is a refusal.
//
// The ttl goes out in whole milliseconds, rounded down. The validity returned is positive: ttl
// less the time spent asking since the granting attempt began, less 1% of ttl, less 2ms, measured
// on the monotonic clock, time suspended included.
//
// After an error nothing is granted: every master has been asked to release (step 5), or will be
// as soon as it can be reached, also when ctx has ended. Errors: ErrHeld (as *HeldError),
// ErrNoQuorum (as *NoQuorumError), ErrLate, ErrFence, ErrInvalidTTL, ErrInvalidRequest, or
// context.Cause(ctx) if the caller gave up first.
//
// Safe for concurrent use.
func (q *Quorum) Acquire(ctx context.Context, r Request) (Lease, error) {
	if ctx.Err() != nil {
		return Lease{}, context.Cause(ctx)
	}
	type result struct {
		lease Lease
		err   error
	}
	done := make(chan result, 1)
	a := q.acquire(r, func(lease Lease, err error) { done <- result{lease, err} })
	q.Flush()
	var got result
	select {
	case got = <-done:
	case <-ctx.Done():
		if a.giveUp() {
			q.Flush()
			return Lease{}, context.Cause(ctx)
		}
		got = <-done
	}
	return a.handOver(got.lease, got.err)
}

// handOver takes the validity anew: the caller may have woken up late.
func (a *acquisition) handOver(lease Lease, err error) (Lease, error) {
	if err != nil {
		return Lease{}, err
	}
	ttl := a.r.TTL
	if lease.Validity = validity(ttl, a.attempt.clock.Elapsed(), drift(ttl)); lease.Validity > 0 {
		return lease, nil
	}
	for t := range a.attempt.tokens {
		a.q.releaseAt(t, ^uint64(0))
	}
	a.q.Flush()
	return Lease{}, ErrLate
}

// AcquireAsync is Acquire for a caller that must not block: it calls done once with what Acquire
// returns, from any goroutine or event loop, perhaps before it returns. What it asks goes out with
// the next Flush.
func (q *Quorum) AcquireAsync(r Request, done func(Lease, error)) { q.acquire(r, done) }

// acquisition is one Acquire: an attempt, and others where the vote was split.
type acquisition struct {
	q     *Quorum
	r     Request // with the full key and whole milliseconds
	slot  uint16
	more  []string // the other full keys
	done  func(Lease, error)
	pause deadline // before the next attempt

	mu       sync.Mutex // guards its attempts as well
	attempt  *attempt   // the latest
	over     bool       // done is not to be called, or has been
	retries  int
	askAgain int
}

func (q *Quorum) acquire(r Request, done func(Lease, error)) *acquisition {
	a := &acquisition{q: q, r: r, done: done}
	q.enter()
	err := r.validate()
	if err == nil {
		a.r.TTL, err = q.wholeTTL(r.TTL)
	}
	if err != nil {
		a.over = true
		a.finish(Lease{}, err)
		return a
	}
	a.r.Key = q.opts.KeyPrefix + r.Key
	a.slot = wire.Slot(a.r.Key)
	for _, key := range r.Keys {
		a.more = append(a.more, q.opts.KeyPrefix+key)
	}
	a.next()
	return a
}

// maxIntent bounds how long those who hold a lock are joined by nobody after somebody has asked who
// waits. It asks again before: see pollEvery in commands/internal/queue.
const maxIntent = 1500 * time.Millisecond

// terms are those of the next attempt. The slots that are tried first are random: those that ask
// at once would meet at the same slot otherwise.
func (a *acquisition) terms() *wire.Terms {
	if a.r.Mode == Exclusive && a.more == nil && a.r.Waits <= 0 {
		return nil
	}
	t := &wire.Terms{Mode: a.r.Mode, Limit: a.r.Limit, More: a.more, Waits: min(a.r.Waits, maxIntent)}
	for _, key := range a.more {
		t.Slots = append(t.Slots, wire.Slot(key))
	}
	if a.r.Mode == Limited {
		for i := range t.Try {
			t.Try[i] = int(a.q.opts.dice.Unit() * float64(a.r.Limit))
		}
	}
	return t
}

// next makes an attempt.
func (a *acquisition) next() {
	a.mu.Lock()
	if a.over {
		a.mu.Unlock()
		return
	}
	a.attempt = newAttempt(a)
	end := a.attempt.askLocked()
	a.mu.Unlock()
	a.follow(end)
}

// ending is what follows when an attempt has ended.
type ending struct {
	ended   bool
	lease   Lease
	err     error
	verdict verdict
	took    time.Duration
}

// follow ends the acquisition, or sees to the next attempt.
func (a *acquisition) follow(end ending) {
	if !end.ended {
		return
	}
	a.mu.Lock()
	if a.over {
		a.mu.Unlock()
		return
	}
	switch {
	case end.verdict == again && a.askAgain < maxAskAgain:
		a.askAgain++
		a.mu.Unlock()
		a.next()
	case end.verdict == split && a.retries < maxRetries:
		wait := retryDelay(end.took, a.retries, a.q.opts.dice.Unit())
		a.retries++
		a.pause.expire = a.next
		a.mu.Unlock()
		a.q.deadlines.set(&a.pause, time.Now().Add(wait))
	default:
		a.over = true
		a.mu.Unlock()
		a.finish(end.lease, end.err)
	}
}

func (a *acquisition) finish(lease Lease, err error) {
	a.done(lease, err)
	a.q.leave()
}

// giveUp ends the acquisition for a caller that has left, and reports false if done has the
// result, or is about to have a lease.
func (a *acquisition) giveUp() bool {
	a.mu.Lock()
	if a.over || a.attempt.phase == leased {
		a.mu.Unlock()
		return false
	}
	a.over = true
	a.attempt.failLocked()
	a.mu.Unlock()
	a.q.deadlines.cancel(&a.pause)
	a.q.leave()
	return true
}

// wholeTTL is ttl in whole milliseconds, or ErrInvalidTTL.
func (q *Quorum) wholeTTL(ttl time.Duration) (time.Duration, error) {
	whole := ttl.Truncate(time.Millisecond)
	if whole <= 0 || whole > q.opts.MaxTTL {
		return 0, fmt.Errorf("%w: %v, want 1ms to %v", ErrInvalidTTL, ttl, q.opts.MaxTTL)
	}
	return whole, nil
}
