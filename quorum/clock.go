package quorum

import "time"

// stepTolerance and stepRate say which difference between a master's clock and ours is a step: more than the one, plus the
// other for the time between.
const (
	stepTolerance = 100 * time.Millisecond
	stepRate      = 100 // 1 %
)

// clockGuard watches the clock of a master. What a master says of its time gives an interval in which its
// offset lies: from what it said less when the answer came, to what it said less when the question was sent. The guard
// keeps the interval in which the offset must lie if the clock has not stepped; it widens by 1% of the time that passes, and is
// cut down by every answer. An answer that misses it by more than the tolerance shows a step.
//
// Times are durations of one monotonic clock; a suspend of this machine is taken out.
type clockGuard struct {
	runID  string
	lo, hi time.Duration
	at     time.Duration // when lo and hi were found
	slept  time.Duration // Suspended() as of at
}

// stepped takes an answer of the master with that run_id, and reports whether its clock has stepped. After a step it keeps
// the interval, so that every further answer shows it too, until forget.
func (g *clockGuard) stepped(runID string, sent, received, says time.Duration) bool {
	lo, hi := says-received, says-sent
	if g.runID != runID {
		*g = clockGuard{runID: runID, lo: lo, hi: hi, at: received, slept: Suspended()}
		return false
	}
	wide := max(received-g.at, 0) / stepRate
	if !g.near(lo, hi, wide) {
		asleep := Suspended() - g.slept
		if asleep < time.Millisecond {
			return true
		}
		g.lo, g.hi, g.slept = g.lo+asleep, g.hi+asleep, g.slept+asleep
		if !g.near(lo, hi, wide) {
			return true
		}
	}
	lower, upper := max(lo, g.lo-wide), min(hi, g.hi+wide)
	if lower > upper { // within the tolerance
		lower, upper = lo, hi
	}
	g.lo, g.hi, g.at = lower, upper, received
	return false
}

// near reports whether an answer agrees with the interval, widened.
func (g *clockGuard) near(lo, hi, wide time.Duration) bool {
	return lo <= g.hi+wide+stepTolerance && hi >= g.lo-wide-stepTolerance
}

// follow makes the next answer of another run of the master one of the same clock.
func (g *clockGuard) follow(runID string) {
	if g.runID != "" {
		g.runID = runID
	}
}

// forget makes the next answer the first.
func (g *clockGuard) forget() { g.runID = "" }
