package commands

import (
	"sync/atomic"
	"time"
)

// Tunable are the options that may change while the service runs.
type Tunable struct {
	MinTTL     time.Duration
	MaxWaiters int // clients that may wait for locks at a time, all keys together

	SessionMaxHold   time.Duration // how long a SESSION lock is renewed
	SessionLockDelay time.Duration // how long its key stays closed after a disconnect without QUIT
	SessionTimeout   time.Duration // how long its client may be silent

	ShowMasters   bool // replies name masters by address, not by their place in the list
	AdminCommands bool // the commands for operators on network listeners, too, and releases by the page
}

// Change sets all of them for new commands. Clients that wait already go on waiting, and a session
// lock keeps its SessionTimeout.
func (s *Service) Change(t Tunable) {
	s.tunable.Store(&t)
	s.queues.SetMax(t.MaxWaiters)
	s.sessionLocks.Change(t.SessionMaxHold, t.SessionLockDelay)
}

// sharedOptions are the options that all parts of a Service share.
type sharedOptions struct {
	opts    Options // only now knows the Tunable ones
	tunable atomic.Pointer[Tunable]
}

// now returns the current Tunable options.
func (s *sharedOptions) now() *Tunable { return s.tunable.Load() }
