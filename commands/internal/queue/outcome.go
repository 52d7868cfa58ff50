package queue

import (
	"errors"
	"time"

	"lockproxy/quorum"
)

// grantedLocked notes that w, which led, has the lock.
func (q *waitQueue) grantedLocked(w *waiter) {
	q.fault, q.delay = nil, 0
	q.last, q.mayBeFree, q.heldUntil = w.want.Mode, false, time.Time{}
	q.countLocked(w)
	if w.want.Mode != quorum.Exclusive {
		return // others hold it, too: what was released may leave room for more
	}
	for i := range q.released { // later messages about them are old news
		q.released[i].granted = true
	}
	q.lastFree, q.heldUntil = time.Time{}, time.Now().Add(w.want.TTL)
}

// freeLocked notes that the key may be free.
func (q *waitQueue) freeLocked() {
	q.lastFree, q.mayBeFree, q.heldUntil = time.Now(), true, time.Time{}
}

// refusedLocked notes that an attempt of the leader ended with err. freed says that a majority had
// told of a release before.
func (q *waitQueue) refusedLocked(err error, freed bool) {
	if freed && q.last == quorum.Exclusive {
		// another proxy was faster. Without a release the holder still has the lock
		q.handOvers = 0
	}
	q.heldUntil = time.Time{}
	switch {
	case errors.Is(err, quorum.ErrHeld):
		q.fault, q.delay = nil, 0
	case q.fault == nil:
		q.faultSince = time.Now()
		fallthrough
	default:
		q.fault = err
	}
}

// heldUntil returns when the locks that are known to keep w from its keys run out, or zero if none
// is known, or a release of it could be missed.
func (qs *Queues) heldUntil(w *waiter) (until time.Time) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	for _, q := range w.queues {
		if q.stop != nil && q.heldUntil.After(until) {
			until = q.heldUntil
		}
	}
	return until
}

// faultFor returns for how long w has met with too few masters, or was too late.
func (qs *Queues) faultFor(w *waiter) time.Duration {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	q := w.queues[0]
	if q.fault == nil {
		return 0
	}
	return min(time.Since(q.faultSince), time.Since(w.joined))
}

// nextDelay returns the delay before the next attempt after such a one.
func (qs *Queues) nextDelay(w *waiter) time.Duration {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	q := w.queues[0]
	q.delay = min(max(firstRetry, 2*q.delay), lastRetry)
	return q.delay
}
