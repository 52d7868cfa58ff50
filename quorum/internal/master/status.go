package master

import (
	"errors"
	"maps"
	"time"

	"lockproxy/plain"
	"lockproxy/quorum/internal/admission"
	"lockproxy/quorum/internal/wire"
	"lockproxy/stat"
)

// status decides which operations the lane takes, and keeps what operators see of the master.
type status struct {
	up      bool // after the handshake: the lane carries releases
	voting  bool // never unless up
	closing bool // the lane takes no new work but releases
	room    int  // see Lane.SetRoom
	reason  error

	shown   stat.Master // without the fields that snapshot fills in
	logged  time.Time   // when dropped repairs were last logged
	warned  string      // the last logged reason why the master does not vote
	counted bool        // its quarantine has been counted
}

// newStatus returns the status of a lane that has not been connected.
func newStatus() status {
	return status{room: maxUnanswered, reason: errConnecting,
		shown: stat.Master{State: stat.StateDown, Since: time.Now()}}
}

// refusal returns the reason why the lane does not take an operation of this kind while so many
// requests wait; nil if it does.
func (s *status) refusal(k wire.OpKind, waiting int) error {
	switch {
	case !s.up, !s.voting && k.Votes():
		return s.reason
	case s.closing && k != wire.Release && k != wire.Fade:
		return ErrClosing
	case waiting >= maxHolders, waiting >= s.room && k == wire.Acquire, waiting >= maxUnanswered && k == wire.TopUp:
		return ErrFull
	}
	return nil
}

// set changes the state that operators see, and the reason for it.
func (s *status) set(state stat.State, reason error) {
	s.reason = reason
	if s.shown.State != state {
		s.shown.State, s.shown.Since = state, time.Now()
	}
}

// met notes that the handshake is done. connected is false if the connection has ended meanwhile.
func (s *status) met(runID string, connected bool) {
	s.shown.RunID, s.up = runID, connected
	if s.shown.State != stat.StateRefused { // the probe may refuse it again: see supervisor.noteEnd
		s.reason = errProbing
	}
}

// lost notes that the connection has ended.
func (s *status) lost(reason error) {
	if s.up {
		s.shown.Lost++
	}
	s.up, s.voting, s.reason = false, false, reason
	if s.shown.State != stat.StateRefused { // it may be refused again: see supervisor.noteEnd
		s.set(stat.StateDown, reason)
	}
}

// admit makes the master vote.
func (s *status) admit() {
	s.voting, s.warned, s.counted = true, "", false
	s.set(stat.StateVoting, nil)
}

// exclude keeps the master out of the vote.
func (s *status) exclude(state stat.State, reason error) {
	s.voting = false
	s.set(state, reason)
}

// countQuarantine counts a quarantine once.
func (s *status) countQuarantine() {
	if !s.counted {
		s.counted = true
		s.shown.Quarantines++
	}
}

// countDropped counts a repair for which there was no room. It reports whether to log that: once a
// minute.
func (s *status) countDropped() (log bool) {
	s.shown.Dropped++
	now := time.Now()
	if log = now.Sub(s.logged) >= time.Minute; log {
		s.logged = now
	}
	return log
}

// maxKinds bounds the kinds of error that are counted apart.
const maxKinds = 32

// countError counts an error reply.
func (s *status) countError(r *wire.Reply) {
	s.shown.Errors++
	kind := r.Code()
	if _, ok := s.shown.ByKind[kind]; !ok && (len(s.shown.ByKind) >= maxKinds || len(kind) > 32) {
		kind = "other"
	}
	if s.shown.ByKind == nil {
		s.shown.ByKind = make(map[string]uint64)
	}
	s.shown.ByKind[plain.Short(kind)]++
}

// countVote counts the answer to an acquire.
func (s *status) countVote(r *wire.Reply) {
	if _, _, ok := wire.Granted(r); ok {
		s.shown.Grants++
	} else if _, ok := wire.Refused(r); ok {
		s.shown.Refusals++
	}
}

// snapshot returns a copy for operators.
func (s *status) snapshot() stat.Master {
	m := s.shown
	if !s.voting {
		m.Reason = plain.Line(s.reason.Error()) // whole: it may end with a command to copy
		if w, ok := errors.AsType[*admission.Quarantine](s.reason); ok {
			m.VotesIn = max(time.Until(w.Until), 0)
		}
	}
	m.ByKind = maps.Clone(m.ByKind)
	return m
}

// noteWarning keeps the topic of a reason before it is logged, and reports whether the last one
// had the same topic.
func (s *status) noteWarning(topic string) bool {
	known := s.warned == topic
	s.warned = topic
	return known
}
