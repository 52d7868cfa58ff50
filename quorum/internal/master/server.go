package master

import (
	"math"
	"time"

	"lockproxy/quorum/internal/admission"
	"lockproxy/quorum/internal/clock"
)

// server is the evidence about the server at the other end of a lane: who it is, under which
// record it votes, and what its clock and its role have shown. It outlives a connection. Times are
// of the lane's clock.
type server struct {
	facts  admission.ServerInfo // as it said last
	record string               // the master votes under it; empty for any
	until  time.Duration        // the evidence for its votes is good until then
	writes uint64               // packets that the master, if durable, has counted under record

	offset  admission.Clock
	asleep  time.Duration // clock.Suspended as last read
	stepped bool          // the clock has stepped; until forgive
	demoted string        // run_id of a server that has been a replica; until forgive

	wanted  chan struct{} // holds a value while a probe is wanted
	probing bool          // a probe is wanted, or on its way
	untried bool          // the next probe tries the rights of the user
	misses  string        // useful rights that the last trial found missing
}

func newServer() server { return server{wanted: make(chan struct{}, 1)} }

// meet takes the facts that a new connection found. It reports whether this is another run of the
// server than before.
func (s *server) meet(f *admission.ServerInfo) (another bool) {
	if another = s.facts.RunID != f.RunID; another {
		s.stepped = false
		s.offset.Follow(f.RunID)
	}
	s.facts, s.untried = *f, true
	return another
}

// wantProbe makes the supervisor probe the server, unless it does so already.
func (s *server) wantProbe() {
	if s.probing {
		return
	}
	s.probing = true
	select {
	case s.wanted <- struct{}{}:
	default:
	}
}

// admit makes the votes of the server count under record, until that time; zero for ever.
func (s *server) admit(record string, start, until time.Time) {
	if s.until = math.MaxInt64; !until.IsZero() {
		s.until = until.Sub(start)
	}
	if s.record != record {
		s.record, s.writes = record, 0
	}
}

// takeWrites returns the number of packets that the server reported on the connection that has
// ended, and forgets it.
func (s *server) takeWrites() (n uint64) {
	n, s.writes = s.writes, 0
	return n
}

// noteRole remembers that a server has been a replica: it may have thrown away writes that its
// master did not have, and come back with the same record.
func (s *server) noteRole(f *admission.ServerInfo) {
	if f.RunID != "" && f.Role != "" && f.Role != "master" {
		s.demoted = f.RunID
	}
}

// noteClock takes one answer with the server's time, and reports whether the server's clock has
// stepped, now or earlier and not forgiven. It also notices that this machine was suspended: older
// observations have aged by that time.
func (s *server) noteClock(sent, received, says time.Duration) bool {
	if !s.offset.Stepped(s.facts.RunID, sent, received, says, s.asleep) {
		return s.stepped
	}
	// Reading the suspended time takes two system calls, so it is read only if it may explain a
	// step.
	asleep := clock.Suspended()
	s.until -= asleep - s.asleep
	s.asleep = asleep
	if s.offset.Stepped(s.facts.RunID, sent, received, says, asleep) {
		s.stepped = true // even if it steps back at once: keys may have expired
	}
	return s.stepped
}

// forgive forgets the steps of the clock and the role as a replica.
func (s *server) forgive() {
	s.offset.Forget()
	s.asleep = clock.Suspended()
	s.stepped, s.demoted = false, ""
}
