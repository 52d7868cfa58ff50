package commands

import "time"

// Go's timers and its monotonic clock stand still while the machine is suspended, while keys on the masters run out. So the times of
// session locks are those of a clock that goes on, and once a second their timers are compared with it.

const lookEvery = time.Second

// now is the monotonic clock, time suspended included: a moment between call and return. For that time.Now comes first.
func (hs *holds) now() time.Time { return time.Now().Add(hs.suspended()) }

// wakeLocked sets the timer of h.
func (hs *holds) wakeLocked(h *hold, at time.Time) {
	h.wake = at
	h.timer.Reset(at.Sub(hs.now()))
}

// lookLocked sees to it that somebody looks from now on.
func (hs *holds) lookLocked() {
	switch {
	case hs.look == nil:
		hs.look = time.AfterFunc(lookEvery, hs.lookForSuspend)
	case len(hs.m) == 1: // it may have ended with the last hold
		hs.look.Reset(lookEvery)
	}
}

// lookForSuspend sets the timers that are to fire before it looks again. After a suspend, what was to happen meanwhile so
// happens at once: a lock is renewed, or its holder told that it is lost. It goes on while there are holds.
func (hs *holds) lookForSuspend() {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	if hs.draining || len(hs.m) == 0 {
		return
	}
	now := hs.now()
	for _, h := range hs.m {
		if left := h.wake.Sub(now); left < lookEvery {
			h.timer.Reset(left)
		}
	}
	hs.look.Reset(lookEvery)
}
