package queue

import (
	"math/rand/v2"
	"time"
)

const (
	// soonFor is how long after a sign that the key is free the head of a line tries again soon.
	retryFor = 300 * time.Millisecond
	// soonest is the least before the first of these tries; the time about doubles with each.
	firstTry = 10 * time.Millisecond
)

// awaitChance waits until the key may be free: for a signal, or until it is to run out in d, or
// for slowTimer.
//
// Behind a release, or the end of the holder's ttl, the head tries again sooner. A try may fail
// there although the lock was given up: the first word of a release came before a majority had
// carried it out and no other follows (TestLineEarlyWord), or the heads of several proxies asked
// at once and none of them got a majority (TestLineNobodyWon). What those give back is told to
// nobody, so without this the lock would stay free for up to slowTimer.
func (ls *Queues) awaitWakeUp(l *waitQueue, p waitLimits, d time.Duration) error {
	start := time.Now()
	err := p.wakeUp(l, min(d, ls.nextTry(l)))
	if err == nil && time.Since(start) >= d {
		ls.mu.Lock()
		defer ls.mu.Unlock()
		l.lastFree = time.Now() // for others it has run out as well
	}
	return err
}

// soon returns the time to the next try behind the last sign.
func (ls *Queues) nextTry(l *waitQueue) time.Duration {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	since := time.Since(l.lastFree)
	if since > retryFor {
		return never
	}
	return since + firstTry + rand.N(since+firstTry)
}
