package quorum

import "time"

// stopwatch takes the time that a request has used (steps 1 and 4), on the monotonic clock, time suspended included.
type stopwatch struct {
	start time.Time
	slept time.Duration // suspended() at start
}

func startWatch() stopwatch { return stopwatch{slept: suspended(), start: time.Now()} }

// elapsed is the time since start.
func (s stopwatch) elapsed() time.Duration {
	elapsed := time.Since(s.start)
	if asleep := suspended() - s.slept; asleep > time.Millisecond {
		elapsed += asleep
	}
	return elapsed
}
