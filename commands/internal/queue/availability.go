package queue

import (
	"math"
	"math/rand/v2"
	"time"

	"lockproxy/quorum"
)

const (
	never = time.Duration(math.MaxInt64)
	// retryFor is how long a leader retries at short intervals after a sign that the key is free.
	retryFor = 300 * time.Millisecond
	// firstTry is the shortest of these intervals. Each is about twice the one before.
	firstTry = 10 * time.Millisecond
)

// availability records when a key may be free. In the zero value all of that is unknown.
type availability struct {
	lastFree  time.Time // the last sign that the key is free, unless an exclusive grant followed
	mayBeFree bool      // there was such a sign since the last grant here
	heldUntil time.Time // when the lock that was granted here expires; zero: not known
}

// free records a sign that the key may be free.
func (a *availability) free(now time.Time) {
	a.lastFree, a.mayBeFree, a.heldUntil = now, true, time.Time{}
}

// granted records a grant here. After a shared or limited one the key may have room for others.
func (a *availability) granted(mode quorum.Mode, ttl time.Duration, now time.Time) {
	a.mayBeFree, a.heldUntil = false, time.Time{}
	if mode == quorum.Exclusive {
		a.lastFree, a.heldUntil = time.Time{}, now.Add(ttl)
	}
}

// refused records that an attempt failed: the lock has an unknown holder.
func (a *availability) refused() { a.heldUntil = time.Time{} }

// nextTry returns the time to the next attempt at short intervals, given the time since the last
// sign that the key is free.
func nextTry(sinceFree time.Duration) time.Duration {
	if sinceFree > retryFor {
		return never
	}
	return sinceFree + firstTry + rand.N(sinceFree+firstTry)
}
