package wire

import "time"

const (
	// MinAttempt is the shortest AttemptTime.
	MinAttempt = 2 * time.Millisecond
	maxAttempt = time.Second
)

// AttemptTime bounds each round of an acquire, an extension, and a refresh with both its rounds:
// it is far below the ttl (step 2).
func AttemptTime(ttl time.Duration) time.Duration {
	return max(min(ttl/4, maxAttempt), MinAttempt)
}

// Life returns how long the masters have to keep a lock of which t is promised: if the longest
// attempt, 1% and 2ms for clocks are taken off, t is left. It is the least such number of whole
// milliseconds.
func Life(t time.Duration) time.Duration {
	const percent = 99
	life := ((t+AttemptTime(t)+2*time.Millisecond)*100 + percent - 1) / percent
	return (life + time.Millisecond - 1).Truncate(time.Millisecond)
}

// Promised is the inverse of Life: it returns the rest of the promise if the masters keep the
// lock for rest, in whole milliseconds, rounded down. It is never negative.
func Promised(rest time.Duration) time.Duration {
	left := rest - rest/100 - 2*time.Millisecond
	t := min(max(left-maxAttempt, left/5*4), left-MinAttempt)
	return max(t, 0).Truncate(time.Millisecond)
}
