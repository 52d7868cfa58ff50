package commands

import (
	"math/rand/v2"
	"time"
)

const (
	// soonFor is how long after a sign that the key is free the head of a line tries again soon.
	soonFor = 300 * time.Millisecond
	// soonest is the least before the first of these tries; the time about doubles with each.
	soonest = 10 * time.Millisecond
)

// awaitChance waits until the key may be free: for a signal, or until it is to run out in d, or
// for slowTimer.
//
// Behind a release, or the end of the holder's ttl, the head tries again sooner. A try may fail
// there although the lock was given up: the first word of a release came before a majority had
// carried it out and no other follows (TestLineEarlyWord), or the heads of several proxies asked
// at once and none of them got a majority (TestLineNobodyWon). What those give back is told to
// nobody, so without this the lock would stay free for up to slowTimer.
func (ls *lines) awaitChance(l *line, p patience, d time.Duration) error {
	start := time.Now()
	err := p.chance(l, min(d, ls.soon(l)))
	if err == nil && time.Since(start) >= d {
		ls.mu.Lock()
		defer ls.mu.Unlock()
		l.sign = time.Now() // for others it has run out as well
	}
	return err
}

// soon returns the time to the next try behind the last sign.
func (ls *lines) soon(l *line) time.Duration {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	since := time.Since(l.sign)
	if since > soonFor {
		return never
	}
	return since + soonest + rand.N(since+soonest)
}
