package queue

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"time"

	"lockproxy/quorum"
)

const (
	// pollEvery is the longest time that a leader waits before it asks the masters again. It
	// matters only if every message about a release is lost.
	pollEvery = time.Second
	// peerPause bounds the pause that gives other proxies their chance. It is at least half as
	// long.
	peerPause = 8 * time.Millisecond
)

// waiter is one client that waits for one key, or for several at once. Its goroutine calls the
// methods without a comment on locking.
type waiter struct {
	qs     *Queues
	limits waitLimits
	want   quorum.Request
	from   net.Addr     // of the client; nil: not known
	queues []*waitQueue // of all its keys, without duplicates
	joined time.Time
	until  time.Time     // when it leaves; zero: it waits without limit
	wakeUp chan struct{} // capacity 1: leads or invited has changed, or one of its keys may be free

	// Guarded by Queues.mu.
	leads   bool // it is first in all its queues, and remains so
	invited bool // it asks beside others, even if it does not lead
	granted bool

	waited bool // it came after another client, or has asked before. Only its goroutine uses it
}

// remaining returns how long w still waits; never without a limit.
func (w *waiter) remaining() time.Duration {
	if w.until.IsZero() {
		return never
	}
	return max(time.Until(w.until), time.Millisecond)
}

// wake wakes the goroutine of w. Any goroutine may call it.
func (w *waiter) wake() {
	select {
	case w.wakeUp <- struct{}{}:
	default:
	}
}

func (w *waiter) isFirstLocked() bool {
	return !slices.ContainsFunc(w.queues, func(q *waitQueue) bool { return q.waiters[0] != w })
}

// follow waits until w leads, and then leads. Before that, w asks once each time it is invited; if
// it is refused it keeps its place.
func (w *waiter) follow() (quorum.Lease, error) {
	for {
		leads, invited := w.state()
		if leads {
			return w.lead()
		}
		if invited {
			if lease, err, left := w.try(false); err == nil || left {
				return lease, err
			}
			continue
		}
		if err := w.limits.wait(w.wakeUp, nil); err != nil {
			return quorum.Lease{}, err
		}
	}
}

// state reports whether w leads, and whether it is invited.
func (w *waiter) state() (leads, invited bool) {
	w.qs.mu.Lock()
	defer w.qs.mu.Unlock()
	return w.leads, w.invited
}

// lead asks the masters and waits for wake-ups until the client has the lock or its wait ends.
func (w *waiter) lead() (quorum.Lease, error) {
	if until := w.heldUntil(); !until.IsZero() {
		if err := w.awaitWakeUp(time.Until(until)); err != nil {
			return quorum.Lease{}, err
		}
	}
	for {
		if w.endStreak() {
			if err := w.limits.sleep(peerPause/2 + rand.N(peerPause/2)); err != nil {
				return quorum.Lease{}, err
			}
		}
		lease, err, _ := w.try(true)
		if err == nil {
			return lease, nil
		}
		if err := w.awaitRetry(err); err != nil {
			return quorum.Lease{}, err
		}
	}
}

// heldUntil returns when the locks that keep w from its keys expire; zero if that is not known, or
// w could miss their release.
func (w *waiter) heldUntil() (until time.Time) {
	w.qs.mu.Lock()
	defer w.qs.mu.Unlock()
	for _, q := range w.queues {
		if q.stop != nil && q.availability.heldUntil.After(until) {
			until = q.availability.heldUntil
		}
	}
	return until
}

// endStreak reports whether w has to pause because a streak is full and the lock may be free, and
// begins a new streak. While the lock is held, other proxies could not get it either.
func (w *waiter) endStreak() (ended bool) {
	w.qs.mu.Lock()
	defer w.qs.mu.Unlock()
	for _, q := range w.queues {
		if q.mayBeFree && q.streak.full(&w.want) {
			q.streak.handOvers, ended = 0, true
		}
	}
	return ended
}

// try makes one attempt. If w leads, its queues record the result. left: the limits ended the
// attempt before it could be sent.
func (w *waiter) try(leads bool) (lease quorum.Lease, err error, left bool) {
	select {
	case <-w.wakeUp: // it is older than this attempt
	default:
	}
	want := w.want
	if leads && w.waited {
		want.Waits = w.remaining()
	}
	if want.Patience = w.remaining(); w.until.IsZero() {
		want.Patience = -1
	}
	freed := w.freed()
	if lease, err, left = acquire(w.qs.locker, want, w.limits); left {
		return lease, err, true
	}
	w.qs.mu.Lock()
	defer w.qs.mu.Unlock()
	for _, q := range w.queues {
		switch {
		case !leads: // the leaders go on as before
		case err == nil:
			q.grantedLocked(w)
		default:
			q.refusedLocked(err, freed)
		}
	}
	if w.granted = err == nil; !w.granted {
		w.waited, w.invited = true, false
	}
	return lease, err, false
}

// freed reports whether a majority has released a key of w since the last exclusive grant here.
func (w *waiter) freed() bool {
	w.qs.mu.Lock()
	defer w.qs.mu.Unlock()
	return slices.ContainsFunc(w.queues, func(q *waitQueue) bool { return q.released.finished(w.qs.masters) })
}

// awaitRetry waits for the next attempt after one that failed with err. It returns an error if
// there must be none.
func (w *waiter) awaitRetry(err error) error {
	held, isHeld := errors.AsType[*quorum.HeldError](err)
	switch {
	case isHeld && len(w.unsubscribed()) > 0:
		// a release before the subscription sends no message, so ask again
		return w.subscribe()
	case isHeld && held.Free >= 0:
		return w.awaitWakeUp(held.Free + time.Millisecond + rand.N(2*time.Millisecond))
	case isHeld:
		return w.awaitWakeUp(never)
	case w.limits.timeout == nil && w.faultLasts() >= w.qs.maxTTL:
		return err
	case errors.Is(err, quorum.ErrNoQuorum), errors.Is(err, quorum.ErrLate), errors.Is(err, quorum.ErrFence),
		errors.Is(err, quorum.ErrBusy) && w.remaining() > time.Millisecond:
		delay := w.nextDelay()
		return w.limits.sleep(delay/2 + rand.N(delay/2))
	}
	return err
}

// faultLasts returns how long the attempts of w have found too few masters, or ended too late.
func (w *waiter) faultLasts() time.Duration {
	w.qs.mu.Lock()
	defer w.qs.mu.Unlock()
	return min(w.queues[0].backoff.lasts(time.Now()), time.Since(w.joined))
}

// nextDelay returns the delay before the next attempt after such a fault.
func (w *waiter) nextDelay() time.Duration {
	w.qs.mu.Lock()
	defer w.qs.mu.Unlock()
	return w.queues[0].backoff.next()
}

// timeoutError replaces ErrTimeout by the error of the last attempt, if that found too few
// masters.
func (w *waiter) timeoutError(err error) error {
	if !errors.Is(err, ErrTimeout) {
		return err
	}
	w.qs.mu.Lock()
	defer w.qs.mu.Unlock()
	for _, q := range w.queues {
		if errors.Is(q.fault, quorum.ErrNoQuorum) {
			return q.fault
		}
	}
	return err
}

// awaitWakeUp waits until a key of w may be free: for a release, for the expiry of the holder's
// lock in d, or for pollEvery.
//
// After a release or an expiry the leader retries at short intervals. An attempt may fail although
// the lock was given up: the first message about a release came before a majority had released
// (TestQueueEarlyMessage), or the leaders of several proxies asked at once and none of them won a
// majority (TestQueueNobodyWon). No message follows in either case, so without retries the lock
// would stay free for up to pollEvery.
func (w *waiter) awaitWakeUp(d time.Duration) error {
	start := time.Now()
	t := time.NewTimer(min(d, pollEvery, w.nextTry()))
	defer t.Stop()
	err := w.limits.wait(w.wakeUp, t.C)
	if err == nil && time.Since(start) >= d {
		w.qs.mu.Lock()
		defer w.qs.mu.Unlock()
		for _, q := range w.queues {
			q.availability.free(time.Now()) // for other proxies, too
		}
	}
	return err
}

// nextTry returns the time to the next attempt after the last sign that a key of w is free.
func (w *waiter) nextTry() time.Duration {
	w.qs.mu.Lock()
	defer w.qs.mu.Unlock()
	since := never
	for _, q := range w.queues {
		since = min(since, time.Since(q.lastFree))
	}
	return nextTry(since)
}

// unsubscribed returns the queues of w that do not receive releases through other proxies yet.
func (w *waiter) unsubscribed() (without []*waitQueue) {
	w.qs.mu.Lock()
	defer w.qs.mu.Unlock()
	for _, q := range w.queues {
		if q.stop == nil {
			without = append(without, q)
		}
	}
	return without
}

// subscribe makes releases of all keys of w through other proxies wake the first waiters. It
// returns when a majority of the masters has confirmed the subscriptions, or the wait ends.
func (w *waiter) subscribe() error {
	ctx, cancel := context.WithCancel(w.limits.ctx)
	var wg sync.WaitGroup
	for _, q := range w.unsubscribed() {
		wg.Go(func() {
			stop := w.qs.watcher.Watch(ctx, q.key, func(id string) { w.qs.notify(q.key, id, false) })
			w.qs.mu.Lock()
			defer w.qs.mu.Unlock()
			q.stop = stop
		})
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		wg.Wait()
	}()
	err := w.limits.wait(done, nil)
	cancel()
	<-done // Watch returns when ctx ends; the subscriptions remain
	return err
}
