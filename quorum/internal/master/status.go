package master

import (
	"errors"
	"maps"
	"math"
	"time"

	"go.uber.org/zap"

	"lockproxy/plain"
	"lockproxy/quorum/internal/admission"
	"lockproxy/quorum/internal/clock"
	"lockproxy/quorum/internal/wire"
	"lockproxy/stat"
)

// Status returns how the master stands now.
func (l *Lane) Status() stat.Master {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.status
	s.Name, s.Owed, s.Unanswered, s.Slow = l.Name(), l.repairs.n, l.queue.n, l.pace.slow
	if !l.votes {
		s.Reason = plain.Short(l.reason.Error())
		if w, ok := errors.AsType[*admission.Quarantine](l.reason); ok {
			s.VotesIn = max(time.Until(w.Until), 0)
		}
	}
	s.ByKind = maps.Clone(s.ByKind)
	return s
}

func (l *Lane) setLocked(s stat.State, reason error) {
	l.reason = reason
	if l.status.State != s {
		l.status.State, l.status.Since = s, time.Now()
	}
}

// maxKinds bounds how many kinds of error are told apart.
const maxKinds = 32

// countErrorLocked counts an error reply. If an ACL forbids something, the next probe tries the rights
// of the user: it may lack one, or may not touch the key of one client.
func (l *Lane) countErrorLocked(r *wire.Reply) {
	l.untried = l.untried || forbids(r)
	l.status.Errors++
	kind := r.Code()
	if _, ok := l.status.ByKind[kind]; !ok && (len(l.status.ByKind) >= maxKinds || len(kind) > 32) {
		kind = "other"
	}
	if l.status.ByKind == nil {
		l.status.ByKind = make(map[string]uint64)
	}
	l.status.ByKind[plain.Short(kind)]++
}

// Admit makes the master vote under record, empty for any, with operations that are sent until that
// time, zero for ever. It does nothing on another connection than conn, nor while a probe is under
// way: the lane may have begun that because it knows more.
func (l *Lane) Admit(conn uint64, record string, until time.Time) {
	l.mu.Lock()
	if !l.isLocked(conn) || !l.votes && l.probing {
		l.mu.Unlock()
		return
	}
	if l.until = math.MaxInt64; !until.IsZero() {
		l.until = until.Sub(l.cfg.Start)
	}
	if l.votes && l.record == record {
		l.mu.Unlock()
		return
	}
	fresh, runID := !l.votes, l.facts.RunID
	if l.record != record {
		l.writes = 0
	}
	l.votes, l.record = true, record
	l.setLocked(stat.StateVoting, nil)
	l.warned, l.counted = "", false
	l.sendRepairsLocked(time.Now(), false) // the top-ups
	l.mu.Unlock()
	if fresh {
		l.cfg.Log.Info("master votes", l.master(), zap.String("run_id", runID))
	}
	l.markReady()
}

// Exclude keeps the master out of the vote for a reason. It does nothing on another connection
// than conn. brief says that the reason is not worth a line in the log and will soon be another.
func (l *Lane) Exclude(conn uint64, s stat.State, reason error, brief bool) {
	l.mu.Lock()
	if !l.isLocked(conn) {
		l.mu.Unlock()
		return
	}
	l.stopVotingLocked(s, reason)
	w, waits := errors.AsType[*admission.Quarantine](reason)
	if waits && !l.counted {
		l.counted = true
		l.status.Quarantines++
	}
	l.mu.Unlock()
	if brief {
		return
	}
	topic := reason.Error()
	if waits {
		topic = w.Topic()
	}
	l.warn(s, reason, topic, false)
	l.markReady()
}

// isLocked reports whether conn is the connection that the lane has.
func (l *Lane) isLocked(conn uint64) bool { return l.conn != nil && l.conn.number == conn }

func (l *Lane) stopVotingLocked(s stat.State, reason error) {
	l.votes = false
	l.setLocked(s, reason)
}

// Forgive makes the lane forget what it knows of the clock and the role of a master that has been
// put in quarantine.
func (l *Lane) Forgive() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.offset.Forget()
	l.asleep = clock.Suspended()
	l.stepped, l.demoted = false, ""
}

// warn logs that the master does not vote, unless that was the last thing logged or the log knows
// it. Two reasons of one topic count as the same.
func (l *Lane) warn(s stat.State, reason error, topic string, known bool) {
	l.mu.Lock()
	known = known || l.warned == topic
	l.warned = topic
	l.mu.Unlock()
	if !known {
		l.cfg.Log.Warn("master does not vote", l.master(), zap.String("state", string(s)), zap.Error(reason))
	}
}
