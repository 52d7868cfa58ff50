package quorum

import (
	"time"

	"lockproxy/quorum/internal/clock"
	"lockproxy/quorum/internal/wire"
)

// drift is taken off the ttl for clocks that run at different rates: 1% of the ttl, and 2ms for
// Redis' expiry, which is counted in whole milliseconds.
func drift(ttl time.Duration) time.Duration { return ttl/100 + 2*time.Millisecond }

// validity returns how much of ttl is left for the holder (step 4). All three are durations of one
// monotonic clock. The lease counts only if the result is positive.
func validity(ttl, elapsed, drift time.Duration) time.Duration { return ttl - elapsed - drift }

// keptUntil returns until when a master that was asked at begun certainly keeps a key that it
// confirmed for ttl: its clock may run faster than the clock of this process.
func keptUntil(begun time.Time, ttl time.Duration) time.Time { return begun.Add(ttl - drift(ttl)) }

// Life returns the ttl that masters get for a promise of t, see Request.Value: the smallest T of
// whole milliseconds with T - T/100 - 2ms - a >= t. The bound of an attempt, a, is a quarter of t,
// but at most a second and at least 2ms.
func Life(t time.Duration) time.Duration { return wire.Life(t) }

// Suspended returns how long this machine has been suspended since it started. Go's monotonic
// clock stops during that time, but keys on the masters expire.
func Suspended() time.Duration { return clock.Suspended() }

const (
	maxRetries = 4 // after split votes

	// maxAskAgain limits attempts that a master asked for, because it lacked its script or had to
	// be probed. They do not count as retries.
	maxAskAgain = 8

	minRetryBase  = time.Millisecond
	maxRetryDelay = 50 * time.Millisecond
)

// retryDelay is the pause after split vote number retry (from 0). It lies between one and three
// times the time that the attempt took, doubles from retry to retry, and is random so that those
// who split the vote part: random is in [0,1).
func retryDelay(elapsed time.Duration, retry int, random float64) time.Duration {
	base := max(elapsed, minRetryBase) << retry
	return min(time.Duration(float64(base)*(1+2*random)), maxRetryDelay)
}
