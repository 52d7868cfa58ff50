package queue

import (
	"math/rand/v2"
	"time"
)

const (
	// retryFor is how long the head retries at short intervals after a sign that the key is free.
	retryFor = 300 * time.Millisecond
	// firstTry bounds the first of these intervals from below. Each is about twice the one before.
	firstTry = 10 * time.Millisecond
)

// awaitWakeUp waits until the key may be free: for a release, for the holder's expiry in d, or for
// pollEvery.
//
// After a release or an expiry the head retries at short intervals. An attempt may fail there
// although the lock was given up: the first message about a release came before a majority had
// carried it out (TestQueueEarlyMessage), or the heads of several proxies asked at once and none
// of them won a majority (TestQueueNobodyWon). No message follows in either case, so without
// retries the lock would stay free for up to pollEvery.
func (qs *Queues) awaitWakeUp(q *waitQueue, limits waitLimits, d time.Duration) error {
	start := time.Now()
	err := limits.wakeUp(q, min(d, qs.nextTry(q)))
	if err == nil && time.Since(start) >= d {
		qs.mu.Lock()
		defer qs.mu.Unlock()
		q.lastFree = time.Now() // the lock expired for other proxies, too
	}
	return err
}

// nextTry returns the time to the next attempt after the last sign that the key is free.
func (qs *Queues) nextTry(q *waitQueue) time.Duration {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	since := time.Since(q.lastFree)
	if since > retryFor {
		return never
	}
	return since + firstTry + rand.N(since+firstTry)
}
