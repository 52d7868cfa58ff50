package session

import "time"

// Go's timers and its monotonic clock stand still while the machine is suspended, while keys on the masters run out. So the times of
// session locks are those of a clock that goes on, and once a second their timers are compared with it.

const checkEvery = time.Second

// now is the monotonic clock, time suspended included: a moment between call and return. For that time.Now comes first.
func (hs *Locks) now() time.Time { return time.Now().Add(hs.suspended()) }

// wakeLocked sets the timer of h.
func (hs *Locks) setTimerLocked(h *lock, at time.Time) {
	h.timerAt = at
	h.timer.Reset(at.Sub(hs.now()))
}

// lookLocked sees to it that somebody looks from now on.
func (hs *Locks) startCheckLocked() {
	switch {
	case hs.check == nil:
		hs.check = time.AfterFunc(checkEvery, hs.checkSuspend)
	case len(hs.bySecret) == 1: // it may have ended with the last hold
		hs.check.Reset(checkEvery)
	}
}

// lookForSuspend sets the timers that are to fire before it looks again. After a suspend, what was to happen meanwhile so
// happens at once: a lock is renewed, or its holder told that it is lost. It goes on while there are holds.
func (hs *Locks) checkSuspend() {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	if hs.draining || len(hs.bySecret) == 0 {
		return
	}
	now := hs.now()
	for _, h := range hs.bySecret {
		if left := h.timerAt.Sub(now); left < checkEvery {
			h.timer.Reset(left)
		}
	}
	hs.check.Reset(checkEvery)
}
