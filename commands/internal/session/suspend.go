package session

import "time"

// Go's timers and its monotonic clock stop while the machine is suspended, but keys on the
// masters run out. So session locks use a clock that goes on, and adjust their timers to it every
// second.

const checkEvery = time.Second

// now returns the monotonic clock plus suspended time. It calls time.Now first, so the result is a
// moment between call and return.
func (ls *Locks) now() time.Time { return time.Now().Add(ls.suspended()) }

// setTimerLocked sets the timer of l.
func (ls *Locks) setTimerLocked(l *lock, at time.Time) {
	l.timerAt = at
	l.timer.Reset(untilTimer(at.Sub(ls.now())))
}

// untilTimer returns left, or 1 ns for a timer that is due. In tests, where time is simulated, Go
// 1.26 runs a timer within Reset(0); if two goroutines do that at once, the race detector crashes.
func untilTimer(left time.Duration) time.Duration { return max(left, 1) }

// startCheckLocked starts checkSuspend, unless it runs.
func (ls *Locks) startCheckLocked() {
	switch {
	case ls.check == nil:
		ls.check = time.AfterFunc(checkEvery, ls.checkSuspend)
	case len(ls.bySecret) == 1: // the timer may have stopped with the last lock
		ls.check.Reset(checkEvery)
	}
}

// checkSuspend adjusts the timers that fire within the next second. After a suspend, overdue
// renewals and losses happen at once. It runs every second while there are locks.
func (ls *Locks) checkSuspend() {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.draining || len(ls.bySecret) == 0 {
		return
	}
	now := ls.now()
	for _, l := range ls.bySecret {
		if left := l.timerAt.Sub(now); left < checkEvery {
			l.timer.Reset(untilTimer(left))
		}
	}
	ls.check.Reset(checkEvery)
}
