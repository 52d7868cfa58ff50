package commands

import (
	"math/rand/v2"
	"time"
)

const (
	// earlyTries is how often the head of a line tries again soon behind a release, and expiryTries behind the holder's expiry, which may be an
	// extension.
	earlyTries, expiryTries = 4, 2
	// earlyRetry is the most before the first of these tries; the time doubles with each.
	earlyRetry = 20 * time.Millisecond
)

// early is the tries that are still to be made soon. One may fail although the lock was given up: the first word of a release came before
// a majority had carried it out, or the heads of several proxies asked at once and none of them got a majority. What those give back is
// told to nobody.
type early struct {
	tries int
	next  time.Duration // the most before the next one
}

// awaitChance waits until the key may be free: for a signal, or until it is to run out in d, or for slowTimer.
func (ls *lines) awaitChance(l *line, p patience, d time.Duration) error {
	if soon := ls.nextEarly(l); soon > 0 && soon < d {
		return p.chance(l, soon)
	}
	start := time.Now()
	if err := p.chance(l, d); err != nil || time.Since(start) < d {
		return err
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l.early = early{expiryTries, earlyRetry} // for others it has run out as well
	return nil
}

// nextEarly returns the time to the next of the tries that are to be made soon, 0 where none is left.
func (ls *lines) nextEarly(l *line) time.Duration {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	e := &l.early
	if e.tries == 0 {
		return 0
	}
	d := e.next
	e.tries, e.next = e.tries-1, 2*d
	return d/2 + rand.N(d/2)
}
