package queue

import (
	"math"
	"math/rand/v2"
	"time"
)

const (
	// pollEvery bounds how long a leader waits before it asks the masters again. It matters only
	// if every message about a release is lost.
	pollEvery = time.Second
	never     = time.Duration(math.MaxInt64)
	// retryFor is how long a leader retries at short intervals after a sign that the key is free.
	retryFor = 300 * time.Millisecond
	// firstTry bounds the first of these intervals from below. Each is about twice the one before.
	firstTry = 10 * time.Millisecond
)

// awaitWakeUp waits until a key of w may be free: for a release, for the holder's expiry in d, or
// for pollEvery.
//
// After a release or an expiry the leader retries at short intervals. An attempt may fail there
// although the lock was given up: the first message about a release came before a majority had
// carried it out (TestQueueEarlyMessage), or the leaders of several proxies asked at once and none
// of them won a majority (TestQueueNobodyWon). No message follows in either case, so without
// retries the lock would stay free for up to pollEvery.
func (qs *Queues) awaitWakeUp(w *waiter, limits waitLimits, d time.Duration) error {
	start := time.Now()
	t := time.NewTimer(min(d, pollEvery, qs.nextTry(w)))
	defer t.Stop()
	err := limits.wait(w.wakeUp, t.C)
	if err == nil && time.Since(start) >= d {
		qs.mu.Lock()
		defer qs.mu.Unlock()
		for _, q := range w.queues {
			q.freeLocked() // for other proxies, too
		}
	}
	return err
}

// nextTry returns the time to the next attempt after the last sign that a key of w is free.
func (qs *Queues) nextTry(w *waiter) time.Duration {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	since := never
	for _, q := range w.queues {
		since = min(since, time.Since(q.lastFree))
	}
	if since > retryFor {
		return never
	}
	return since + firstTry + rand.N(since+firstTry)
}
