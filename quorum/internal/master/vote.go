package master

import (
	"errors"
	"time"

	"go.uber.org/zap"

	"lockproxy/quorum/internal/admission"
	"lockproxy/stat"
)

// Admit makes the master vote under record, empty for any, with operations that are sent until
// that time, zero for ever. It has no effect on another connection than conn, nor, on a master
// that does not vote, while a probe is under way: the lane may have begun that because it knows
// more.
func (l *Lane) Admit(conn uint64, record string, until time.Time) {
	l.mu.Lock()
	if !l.conn.is(conn) || !l.status.voting && l.server.probing {
		l.mu.Unlock()
		return
	}
	fresh, same, runID := !l.status.voting, l.server.record == record, l.server.facts.RunID
	l.server.admit(record, l.cfg.Start, until)
	if !fresh && same {
		l.mu.Unlock()
		return
	}
	l.status.admit()
	l.repairs.sendAll(&l.status, &l.queue, time.Now(), false) // the top-ups
	l.conn.wakeLocked()
	l.mu.Unlock()
	if fresh {
		l.cfg.Log.Info("master votes", l.cfg.field(), zap.String("run_id", runID))
	}
	l.ready.close()
}

// Exclude keeps the master out of the vote for a reason. It has no effect on another connection
// than conn. brief says that the reason is not worth a line in the log and will soon be another.
func (l *Lane) Exclude(conn uint64, s stat.State, reason error, brief bool) {
	l.mu.Lock()
	if !l.conn.is(conn) {
		l.mu.Unlock()
		return
	}
	l.status.exclude(s, reason)
	w, waits := errors.AsType[*admission.Quarantine](reason)
	if waits {
		l.status.countQuarantine()
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
	l.ready.close()
}

// Forgive makes the lane forget the steps of the clock and the former role of a master that has
// been put in quarantine.
func (l *Lane) Forgive() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.server.forgive()
}

// warn logs that the master does not vote, unless the log says so already: with that topic, or, if
// known, by another line.
func (l *Lane) warn(s stat.State, reason error, topic string, known bool) {
	l.mu.Lock()
	known = l.status.noteWarning(topic) || known
	l.mu.Unlock()
	if !known {
		l.cfg.Log.Warn("master does not vote", l.cfg.field(), zap.String("state", string(s)), zap.Error(reason))
	}
}
