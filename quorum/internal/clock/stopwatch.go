// Package clock measures time so that a suspend of the machine counts.
package clock

import "time"

// Stopwatch measures the time that a request takes (steps 1 and 4): monotonic time and the time
// that the machine was suspended. The zero value is not started; see Start.
type Stopwatch struct {
	start time.Time
	slept time.Duration // lastSuspended() at start
}

// Start returns a Stopwatch that runs from now on. To be quick it does not check whether the
// machine was suspended just before. If no later call did, Elapsed counts that suspend as well: it
// may return too much, but never too little.
func Start() Stopwatch { return Stopwatch{slept: lastSuspended(), start: time.Now()} }

// Begun returns when the Stopwatch was started.
func (s Stopwatch) Begun() time.Time { return s.start }

// Elapsed returns the time since Start.
func (s Stopwatch) Elapsed() time.Duration {
	return time.Since(s.start) + s.Suspended()
}

// Suspended returns how long the machine was suspended since Start, or maybe just before.
func (s Stopwatch) Suspended() time.Duration {
	if asleep := Suspended() - s.slept; asleep > time.Millisecond {
		return asleep
	}
	return 0
}
