package commands

import "time"

// Tunable are the options that may be changed while the service runs; Options says what they mean.
type Tunable struct {
	MinTTL           time.Duration
	MaxWaiters       int
	SessionMaxHold   time.Duration
	SessionLockDelay time.Duration
	SessionTimeout   time.Duration
	ShowMasters      bool
	AdminCommands    bool
}

// Change sets all of them, for what comes from here on: who waits already goes on waiting, and a session lock keeps the SessionTimeout it
// was taken with.
func (s *Service) Change(t Tunable) {
	s.tunable.Store(&t)
	s.lines.setMax(t.MaxWaiters)
	s.holds.change(t.SessionMaxHold, t.SessionLockDelay)
}

// now are the tunable options of the moment.
func (s *Service) now() *Tunable { return s.tunable.Load() }

// tunableOf are the options that a service begins with.
func tunableOf(o Options) *Tunable {
	return &Tunable{MinTTL: o.MinTTL, MaxWaiters: o.MaxWaiters, SessionMaxHold: o.SessionMaxHold, SessionLockDelay: o.SessionLockDelay,
		SessionTimeout: o.SessionTimeout, ShowMasters: o.ShowMasters, AdminCommands: o.AdminCommands}
}

func (ls *lines) setMax(n int) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.max = n
}

func (hs *holds) change(maxHold, delay time.Duration) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	hs.maxHold, hs.delay = maxHold, delay
}
