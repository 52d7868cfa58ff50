package stat

import (
	"fmt"
	"time"
)

// Load describes how busy the masters and this process are. Counters only grow.
type Load struct {
	Waiting  int    // LOCKs that wait until they can be sent to the masters
	Running  int    // LOCKs that have been sent and are not decided
	Window   int    // how many may be; it follows the capacity of the masters
	TimedOut uint64 // LOCKs that waited for queue-timeout and were never sent
	// the longest delay of this process for want of processor time in the minute before LateAt; 0:
	// never
	LateBy time.Duration
	LateAt time.Time // when it last was; zero: never
}

// shownLate is how long operators are shown that this process was late.
const shownLate = time.Minute

// Lateness says how late this process was and how long ago. It returns "" after a minute.
func (l *Load) Lateness(now time.Time) string {
	ago := max(now.Sub(l.LateAt), 0)
	if l.LateBy <= 0 || ago > shownLate {
		return ""
	}
	by := fmt.Sprintf("%d ms", l.LateBy.Milliseconds())
	if l.LateBy >= time.Second {
		by = fmt.Sprintf("%.4g s", l.LateBy.Truncate(time.Second/10).Seconds())
	}
	return fmt.Sprintf("this proxy was late by %s, %d s ago", by, ago/time.Second)
}
