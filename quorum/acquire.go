package quorum

import (
	"context"
	"fmt"
	"time"
)

// Acquire asks every master to grant r.Key to a fresh token for r.TTL, and returns the lease: token, fence and how long
// the holder may count on it.
//
// It is steps 1 to 5, except that step 2 asks all masters at once instead of in turn and that step 3 ends as soon as it
// is certain. When several clients split the vote it tries again a few times, each time with another token and
// after a random delay. A key that stands on a master in any form is a refusal.
//
// The ttl goes out in whole milliseconds, rounded down. The validity returned is positive: ttl less the time spent asking
// since the granting attempt began, less 1% of ttl, less 2ms, measured on the monotonic clock, time
// suspended included.
//
// After an error nothing is granted: every master has been asked to release (step 5), or will be as soon as it can be
// reached, also when ctx has ended. Errors: ErrHeld (as *HeldError), ErrNoQuorum (as *NoQuorumError), ErrLate, ErrFence,
// ErrInvalidTTL, or context.Cause(ctx) if the caller gave up first.
//
// Safe for concurrent use.
func (q *Quorum) Acquire(ctx context.Context, r Request) (Lease, error) {
	var err error
	if r.TTL, err = q.wholeTTL(r.TTL); err != nil {
		return Lease{}, err
	}
	if ctx.Err() != nil {
		return Lease{}, context.Cause(ctx)
	}
	q.enter()
	defer q.leave()
	r.Key = q.opts.KeyPrefix + r.Key
	retries, noScript := 0, 0
	for {
		start := time.Now()
		lease, v, err := q.try(ctx, r)
		switch {
		case v == again && noScript < maxNoScript:
			noScript++
		case v == split && retries < maxRetries:
			if err := pause(ctx, retryDelay(time.Since(start), retries, q.opts.dice.unit())); err != nil {
				return Lease{}, err
			}
			retries++
		default:
			return lease, err
		}
	}
}

// pause waits for d, or returns the cause of ctx's end.
func pause(ctx context.Context, d time.Duration) error {
	sleep(ctx, d)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// try makes one attempt. Without an error the verdict is won; with one, everything has been released, and split and
// again say that another attempt may do better.
func (q *Quorum) try(ctx context.Context, r Request) (Lease, verdict, error) {
	a := q.newAttempt(r)
	defer a.leave()
	a.ask()
	v, err := a.decide(ctx)
	if err == nil && v == won {
		// Taken after everything else that had to happen (step 4).
		left := validity(a.ttl, a.clock.elapsed(), drift(a.ttl))
		if left > 0 {
			return Lease{Token: Token{Fence: a.fence, Secret: a.secret}, Validity: left}, won, nil
		}
		v, err = lost, ErrLate
	}
	a.fail()
	return Lease{}, v, err
}

// decide waits for the decision (step 3), and for the second fencing round where it is needed.
func (a *attempt) decide(ctx context.Context) (verdict, error) {
	if err := a.wait(ctx, a.timeout); err != nil {
		return lost, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.verdict == open {
		a.verdict = a.tally.atDeadline()
	}
	switch a.verdict {
	case won:
	case held, split:
		return a.verdict, &HeldError{Free: a.freeInLocked()}
	default:
		return a.verdict, a.noQuorumLocked()
	}
	var exact int
	a.fence, exact = a.highestLocked()
	if a.q.opts.Fencing && exact < majority(len(a.votes)) {
		a.raiseLocked()
		a.mu.Unlock()
		err := a.wait(ctx, a.timeout)
		a.mu.Lock()
		if err != nil {
			return lost, err
		}
		if a.verdict != won {
			return lost, ErrFence
		}
	}
	a.leaseLocked()
	return won, nil
}

// wholeTTL is ttl in whole milliseconds, or ErrInvalidTTL.
func (q *Quorum) wholeTTL(ttl time.Duration) (time.Duration, error) {
	whole := ttl.Truncate(time.Millisecond)
	if whole <= 0 || whole > q.opts.MaxTTL {
		return 0, fmt.Errorf("%w: %v, want 1ms to %v", ErrInvalidTTL, ttl, q.opts.MaxTTL)
	}
	return whole, nil
}
