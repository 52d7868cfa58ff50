package admission

import "time"

// stepTolerance and stepRate say which difference between a master's clock and ours is a step:
// more than the one, plus the other for the time between.
const (
	stepTolerance = 100 * time.Millisecond
	stepRate      = 100 // 1 %
)

// Clock watches the clock of a master. Each answer gives an interval in which the offset of that
// clock to ours lies. The least is the time that it said less the time when the answer came; the
// most is the time that it said less the time when the question was sent. Clock keeps the interval
// in which the offset must lie if the clock has not stepped. That interval widens by 1 % of the
// time that passes, and every answer that meets it cuts it down. An answer that misses it by more
// than the tolerance shows a step. One that misses it by less does not move it, so a clock that
// runs too fast shows in time. The zero value has had no answer.
//
// Times are durations of one monotonic clock; suspended is how long this machine has been
// suspended.
type Clock struct {
	runID     string
	lo, hi    time.Duration
	at        time.Duration // when lo and hi were found
	suspended time.Duration // as of at
}

// Stepped takes an answer of the master with that run_id, and reports whether its clock has
// stepped. After a step Clock keeps the interval, so that every further answer shows it too, until
// Forget.
func (c *Clock) Stepped(runID string, sent, received, says, suspended time.Duration) bool {
	lo, hi := says-received, says-sent
	if c.runID != runID {
		*c = Clock{runID: runID, lo: lo, hi: hi, at: received, suspended: suspended}
		return false
	}
	wide := max(received-c.at, 0) / stepRate
	if !c.near(lo, hi, wide) {
		asleep := suspended - c.suspended
		if asleep < time.Millisecond {
			return true
		}
		c.lo, c.hi, c.suspended = c.lo+asleep, c.hi+asleep, suspended
		if !c.near(lo, hi, wide) {
			return true
		}
	}
	c.lo, c.hi, c.at = c.lo-wide, c.hi+wide, max(received, c.at)
	if lower, upper := max(lo, c.lo), min(hi, c.hi); lower <= upper {
		c.lo, c.hi = lower, upper
	}
	return false
}

// near reports whether an answer agrees with the interval, widened.
func (c *Clock) near(lo, hi, wide time.Duration) bool {
	return lo <= c.hi+wide+stepTolerance && hi >= c.lo-wide-stepTolerance
}

// Follow makes the next answer, of another run of the master, one of the same clock.
func (c *Clock) Follow(runID string) {
	if c.runID != "" {
		c.runID = runID
	}
}

// Forget makes the next answer the first.
func (c *Clock) Forget() { c.runID = "" }
