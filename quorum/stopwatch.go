package quorum

import "time"

// stopwatch takes the time that a request has used (steps 1 and 4), on the monotonic clock, time suspended included.
type stopwatch struct {
	start time.Time
	slept time.Duration // Suspended() at start
}

func startWatch() stopwatch { return stopwatch{slept: Suspended(), start: time.Now()} }

// elapsed is the time since start.
func (s stopwatch) elapsed() time.Duration {
	elapsed := time.Since(s.start)
	if asleep := Suspended() - s.slept; asleep > time.Millisecond {
		elapsed += asleep
	}
	return elapsed
}
