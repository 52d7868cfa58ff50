package quorum

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"lockproxy/quorum/internal/wire"
)

// Acquire asks every master to grant r.Key to a fresh token for r.TTL, and returns the lease:
// token, fence and how long the holder may count on it.
//
// It is steps 1 to 5, except that step 2 asks all masters at once instead of in turn and that step
// 3 ends as soon as it is certain. When several clients split the vote it tries again a few times,
// each time with another token and after a random delay. A master refuses if the key exists there
// in any form.
//
// It may have to wait until it can be sent, in order of arrival, at most r.Patience. Until then it
// has no token and sends no request; all times below count from the moment it is sent. A round of
// an attempt takes at most a quarter of the ttl, and at most a second. A master that makes no
// progress for Options.MasterTimeout stops counting earlier.
//
// The ttl goes out in whole milliseconds, rounded down. The validity returned is positive: ttl
// less the time spent asking since the granting attempt began, less 1% of ttl, less 2ms, measured
// on the monotonic clock, time suspended included.
//
// After an error the caller holds no lock: every master has been asked to release (step 5), or
// will be as soon as it can be reached, also when ctx has ended. Errors: ErrHeld (as *HeldError),
// ErrNoQuorum (as *NoQuorumError), ErrBusy (as *BusyError), ErrEnding, ErrLate, ErrFence,
// ErrInvalidTTL, ErrInvalidRequest, or context.Cause(ctx) if the caller gave up first.
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
		if a.handle(&event{kind: eventGiveUp}) {
			q.Flush()
			return Lease{}, context.Cause(ctx)
		}
		got = <-done
	}
	return a.handOver(got.lease, got.err)
}

// handOver computes the validity again, because the caller may have woken up late.
func (a *acquisition) handOver(lease Lease, err error) (Lease, error) {
	if err != nil {
		return Lease{}, err
	}
	ttl := a.r.TTL
	lease.Validity = validity(ttl, a.attempt.clock.Elapsed(), drift(ttl))
	if lease.Validity > 0 && lease.Validity >= a.promise {
		return lease, nil
	}
	for t := range a.attempt.tokens {
		a.q.fleet.releaseAt(t, allMasters)
	}
	a.q.Flush()
	return Lease{}, ErrLate
}

// AcquireAsync is Acquire for a caller that must not block: it calls done once with what Acquire
// returns, from any goroutine or event loop, perhaps before it returns. The requests go out with
// the next Flush.
//
// If the acquire has to wait until it can be sent, leave gives it up, for a client that has left:
// it reports whether no attempt of the acquire was under way, and then done is not called.
// Otherwise leave is nil.
func (q *Quorum) AcquireAsync(r Request, done func(Lease, error)) (leave func() bool) {
	a := q.acquire(r, done)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.state != stateWaiting {
		return nil
	}
	return func() bool { return a.handle(&event{kind: eventWithdraw}) }
}

// acquire starts an acquisition, which calls done once unless the caller leaves.
func (q *Quorum) acquire(r Request, done func(Lease, error)) *acquisition {
	a := &acquisition{q: q, r: r, done: done, patience: cmp.Or(r.Patience, q.opts.QueueTimeout)}
	q.calls.enter()
	err := r.validate()
	if err == nil {
		a.r.TTL, err = q.opts.wholeTTL(r.TTL)
	}
	if err != nil {
		a.state = stateFailed
		a.perform(&effects{report: true, err: err, end: true})
		return a
	}
	if r.Value != "" {
		a.promise = a.r.TTL
		a.r.TTL, a.r.Owner = Life(a.promise), wire.OwnerOf(r.Value)
	}
	a.r.Key = q.opts.KeyPrefix + r.Key
	a.counter = wire.CounterOf(a.r.Key)
	for _, key := range r.Keys {
		a.more = append(a.more, q.opts.KeyPrefix+key)
	}
	a.waits.expire = func() { a.handle(&event{kind: eventTimeout}) }
	a.enter(false)
	return a
}

// maxIntent is the longest lifetime of an intent. A client that still waits renews it earlier: see
// pollEvery in commands/internal/queue.
const maxIntent = 1500 * time.Millisecond

// terms returns the terms of the next attempt.
func (a *acquisition) terms() *wire.Terms {
	if a.r.Mode == Exclusive && a.more == nil && a.r.Waits <= 0 {
		return nil
	}
	t := &wire.Terms{Mode: a.r.Mode, Limit: a.r.Limit, More: a.more, Waits: min(a.r.Waits, maxIntent)}
	for _, key := range a.more {
		t.Counters = append(t.Counters, wire.CounterOf(key))
	}
	if a.r.Mode == Limited {
		t.Try = a.slotsToTry()
	}
	return t
}

// slotsToTry returns the slots that masters grant if they are free. They are random at first, or
// clients that ask at the same time would meet at one slot. Every second attempt names slots that
// masters granted before: that of most masters, and the highest. A master where both are taken
// grants its lowest free slot, so no slot under the highest is free on all masters.
func (a *acquisition) slotsToTry() (slots [2]int) {
	if a.retries%2 == 1 {
		return a.granted
	}
	for i := range slots {
		slots[i] = int(a.q.opts.Dice.Unit() * float64(a.r.Limit))
	}
	return slots
}

// wholeTTL returns ttl in whole milliseconds, or ErrInvalidTTL.
func (o *Options) wholeTTL(ttl time.Duration) (time.Duration, error) {
	whole := ttl.Truncate(time.Millisecond)
	if whole <= 0 || whole > o.MaxTTL {
		return 0, fmt.Errorf("%w: %v, want 1ms to %v", ErrInvalidTTL, ttl, o.MaxTTL)
	}
	return whole, nil
}
