package quorum

import (
	"cmp"
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
// It may have to wait until it can be sent, in order of arrival, at most r.Patience. Until then it
// has no token and costs the masters nothing; what is said here of time begins when it is sent. An
// attempt is undecided for at most a quarter of the ttl and a second. Before, a master no longer
// counts once it has made no progress for Options.MasterTimeout.
//
// The ttl goes out in whole milliseconds, rounded down. The validity returned is positive: ttl
// less the time spent asking since the granting attempt began, less 1% of ttl, less 2ms, measured
// on the monotonic clock, time suspended included.
//
// After an error nothing is granted: every master has been asked to release (step 5), or will be
// as soon as it can be reached, also when ctx has ended. Errors: ErrHeld (as *HeldError),
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
		a.q.releaseAt(t, allMasters)
	}
	a.q.Flush()
	return Lease{}, ErrLate
}

// AcquireAsync is Acquire for a caller that must not block: it calls done once with what Acquire
// returns, from any goroutine or event loop, perhaps before it returns. What it asks goes out with
// the next Flush.
//
// If the acquire has to wait until it can be sent, leave gives it up, for a client that has left: it
// reports whether no attempt of the acquire was under way, and then done is not called. Otherwise
// leave is nil.
func (q *Quorum) AcquireAsync(r Request, done func(Lease, error)) (leave func() bool) {
	a := q.acquire(r, done)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.stage != stageWaiting {
		return nil
	}
	return a.leaveUnsent
}

// stage is how far an acquisition is.
type stage uint8

const (
	stageWaiting stage = iota // in the intake, or about to enter it
	stageAsking               // an attempt runs
	stagePausing              // between two attempts
	stageOver                 // done is not to be called, or has been
)

// acquisition is one Acquire: an attempt, and others where the vote was split.
type acquisition struct {
	q        *Quorum
	r        Request // with the full key and whole milliseconds
	slot     uint16
	more     []string // the other full keys
	done     func(Lease, error)
	patience time.Duration // until it is sent first; not positive: no end
	waits    deadline      // while it waits
	pause    deadline      // before the next attempt

	mu       sync.Mutex // guards its attempts as well
	stage    stage
	attempt  *attempt // the latest; nil before the first
	retries  int
	askAgain int

	older, newer *acquisition // of those that wait; guarded by the mu of the intake
	linked       bool         // it is one of them
}

func (q *Quorum) acquire(r Request, done func(Lease, error)) *acquisition {
	a := &acquisition{q: q, r: r, done: done, patience: cmp.Or(r.Patience, q.opts.QueueTimeout)}
	q.enter()
	err := r.validate()
	if err == nil {
		a.r.TTL, err = q.wholeTTL(r.TTL)
	}
	if err != nil {
		a.stage = stageOver
		a.finish(Lease{}, err)
		return a
	}
	a.r.Key = q.opts.KeyPrefix + r.Key
	a.slot = wire.Slot(a.r.Key)
	for _, key := range r.Keys {
		a.more = append(a.more, q.opts.KeyPrefix+key)
	}
	a.waits.expire = a.timeOut
	a.enter(false)
	return a
}

// enter asks the masters as soon as the intake has room.
func (a *acquisition) enter(again bool) {
	switch starts, ends := a.q.intake.enter(a, again); {
	case starts:
		a.next()
	case ends:
		a.refuse(ErrEnding)
	}
}

// maxIntent bounds how long those who hold a lock are joined by nobody after somebody has asked who
// waits. It asks again before: see pollEvery in commands/internal/queue.
const maxIntent = 1500 * time.Millisecond

// terms returns those of the next attempt.
func (a *acquisition) terms() *wire.Terms {
	if a.r.Mode == Exclusive && a.more == nil && a.r.Waits <= 0 {
		return nil
	}
	t := &wire.Terms{Mode: a.r.Mode, Limit: a.r.Limit, More: a.more, Waits: min(a.r.Waits, maxIntent)}
	for _, key := range a.more {
		t.Slots = append(t.Slots, wire.Slot(key))
	}
	if a.r.Mode == Limited {
		t.Try = a.slotsToTry()
	}
	return t
}

// slotsToTry returns the slots that masters grant if they are free. They are random at first, or
// clients that ask at the same time would meet at one slot. Every second attempt names slots that
// masters granted before: that of most masters, and the highest. A master where both are taken grants
// its lowest free slot, so no slot under the highest is free on all masters.
func (a *acquisition) slotsToTry() (slots [2]int) {
	for i := range slots {
		slots[i] = int(a.q.opts.Dice.Unit() * float64(a.r.Limit))
	}
	if a.retries%2 == 1 {
		slots = [2]int{a.attempt.votes.slot, 0}
		for _, v := range a.attempt.votes.answers {
			if v.state == answerYes || v.elsewhere {
				slots[1] = max(slots[1], v.slot)
			}
		}
	}
	return slots
}

// next makes an attempt. The acquisition has its place.
func (a *acquisition) next() {
	a.mu.Lock()
	if a.stage == stageOver {
		a.mu.Unlock()
		a.q.intake.leave(nil)
		return
	}
	a.stage = stageAsking
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
}

// follow ends the acquisition, or sees to the next attempt.
func (a *acquisition) follow(end ending) {
	if !end.ended {
		return
	}
	a.mu.Lock()
	attempt := a.attempt
	switch {
	case a.stage == stageOver:
		a.mu.Unlock()
		return
	case end.verdict == again && a.askAgain < maxAskAgain:
		a.askAgain++
		a.mu.Unlock()
		a.next()
		return
	case end.verdict == split && a.retries < maxRetries:
		wait := retryDelay(time.Since(attempt.clock.Begun()), a.retries, a.q.opts.Dice.Unit())
		a.retries++
		a.stage = stagePausing
		a.pause.expire = a.resume
		a.q.deadlines.set(&a.pause, time.Now().Add(wait))
	default:
		a.endLocked(end)
		return
	}
	a.mu.Unlock()
	a.q.intake.leave(attempt)
}

// endLocked ends the acquisition with the result of its attempt, and unlocks it.
func (a *acquisition) endLocked(end ending) {
	attempt := a.attempt
	a.stage = stageOver
	a.mu.Unlock()
	a.finish(end.lease, end.err)
	a.q.intake.leave(attempt)
}

// resume ends the pause.
func (a *acquisition) resume() {
	a.mu.Lock()
	if a.stage != stagePausing {
		a.mu.Unlock()
		return
	}
	a.stage = stageWaiting
	a.mu.Unlock()
	a.enter(true)
}

func (a *acquisition) finish(lease Lease, err error) {
	a.done(lease, err)
	a.q.leave()
}

// timeOut ends an acquisition that could not be sent in time.
func (a *acquisition) timeOut() {
	if waiting, ended := a.endUnsent(true); ended {
		a.finish(Lease{}, &BusyError{Waiting: waiting})
	}
}

// refuse ends an acquisition that has not been sent.
func (a *acquisition) refuse(err error) {
	if _, ended := a.endUnsent(false); ended {
		a.finish(Lease{}, err)
	}
}

// leaveUnsent gives the acquisition up if no attempt runs, and reports whether it did.
func (a *acquisition) leaveUnsent() bool {
	_, ended := a.endUnsent(false)
	if ended {
		a.q.leave()
	}
	return ended
}

// endUnsent ends the acquisition if no attempt runs. waiting is how many waited then.
func (a *acquisition) endUnsent(timedOut bool) (waiting int, ended bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.stage != stageWaiting && a.stage != stagePausing {
		return 0, false
	}
	a.stage = stageOver
	a.q.deadlines.cancel(&a.pause)
	return a.q.intake.remove(a, timedOut), true
}

// giveUp ends the acquisition for a caller that has left, and reports false if done has the
// result, or is about to have a lease.
func (a *acquisition) giveUp() bool {
	if a.leaveUnsent() {
		return true
	}
	a.mu.Lock()
	attempt := a.attempt
	if a.stage != stageAsking || attempt.phase == leased {
		a.mu.Unlock()
		return false
	}
	a.stage = stageOver
	attempt.failLocked()
	a.mu.Unlock()
	a.q.leave()
	a.q.intake.leave(nil)
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
