package quorum

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"
)

// view is what a lane found when it last looked at its master: at the end of the handshake, once a second, and whenever the
// master says that its record has changed.
type view struct {
	conn  *laneConn // the connection that it was seen on
	sent  time.Time // when the question was queued
	at    time.Time // when the answer came
	facts facts
	lookReply
	stepped bool // its clock has stepped since it was admitted
	evicted bool // it has evicted keys since
	demoted bool // it was a replica in this run
}

// lookReply is the reply of look.lua.
type lookReply struct {
	clock  time.Duration // what TIME said, since 1970
	fields int           // in the hash
	record, settings, born,
	durable string
}

func parseLook(r *reply) (l lookReply, ok bool) {
	if r.kind != '$' || r.null {
		return l, false
	}
	line := strings.Split(r.text, "\n")
	word := strings.Split(line[0], " ")
	if len(line) != 5 || len(word) != 3 {
		return l, false
	}
	if l.clock, ok = parseClock(word[0], word[1]); !ok {
		return l, false
	}
	var err error
	if l.fields, err = strconv.Atoi(word[2]); err != nil {
		return l, false
	}
	l.record, l.settings, l.born, l.durable = line[1], line[2], line[3], line[4]
	return l, true
}

// parseClock reads what TIME says, in seconds and microseconds.
func parseClock(seconds, micros string) (time.Duration, bool) {
	s, err := strconv.ParseInt(seconds, 10, 64)
	us, err2 := strconv.ParseInt(micros, 10, 64)
	if err != nil || err2 != nil {
		return 0, false
	}
	return clockOf(s, us), true
}

func clockOf(seconds, micros int64) time.Duration {
	return time.Duration(seconds)*time.Second + time.Duration(micros)*time.Microsecond
}

// lookLocked makes the lane look at its master, unless it does already.
func (l *lane) lookLocked() {
	if l.conn == nil || l.looking {
		return
	}
	l.looking = true
	l.pushLocked(command{op: opServer})
	if l.facts.aof && !l.facts.notAsked {
		l.pushLocked(command{op: opConfig})
	}
	l.pushLocked(command{op: opLook})
}

// look is lookLocked for those who do not hold mu.
func (l *lane) look() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lookLocked()
}

// serverLocked takes what INFO says. The error ends the connection: it leads to another server now, or to one that must not
// vote.
func (l *lane) serverLocked(r *reply) error {
	if r.isError() {
		return nil // the next look may do better
	}
	before := l.facts.runID
	l.facts.readInfo(r.text)
	if l.facts.runID != before {
		return errOtherServer
	}
	l.watchRoleLocked(&l.facts)
	return l.facts.refusal()
}

// watchRoleLocked remembers that a server has been a replica: it may have thrown away what its master did not have, and come
// back with the same record.
func (l *lane) watchRoleLocked(f *facts) {
	if f.runID != "" && f.role != "" && f.role != "master" {
		l.demoted = f.runID
	}
}

// refusal says why such a server is no master of ours, if so.
func (f *facts) refusal() error {
	switch {
	case f.mode == "cluster":
		return refusedError{errClusterMode}
	case f.mode == "sentinel":
		return refusedError{errNotRedis}
	case f.runID == "":
		return refusedError{errNoRunID}
	case f.role == "":
		return refusedError{errNoRole}
	case f.role != "master":
		return refusedError{errReplica}
	}
	return nil
}

// lookedLocked makes a view of the answer to a look; ok is false if there is none in it.
func (l *lane) lookedLocked(c *laneConn, r *reply, sent, received time.Duration, now time.Time) (v view, ok bool) {
	said, ok := parseLook(r)
	if !ok {
		return v, false
	}
	l.watchClockLocked(sent, received, said.clock)
	if l.facts.evicted < l.evictedBefore { // CONFIG RESETSTAT
		l.evictedBefore = 0
	}
	return view{conn: c, sent: l.epoch.Add(sent), at: now, facts: l.facts, lookReply: said,
		stepped: l.stepped, evicted: l.facts.evicted > l.evictedBefore, demoted: l.demoted == l.facts.runID}, true
}

// watchClockLocked takes one answer with the master's time, and reports whether the clock has stepped, now or before and not yet
// forgiven.
func (l *lane) watchClockLocked(sent, received, says time.Duration) bool {
	l.status.Ahead = says - time.Duration(l.epoch.UnixNano()) - received
	if l.enc.unguarded {
		return false
	}
	if l.offset.stepped(l.facts.runID, sent, received, says) {
		l.stepped = true // also if it steps back at once: keys may have run out
	}
	return l.stepped
}

// forgive begins anew with the clock, the evictions and the role of a master that has been put in quarantine.
func (l *lane) forgive() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.offset.forget()
	l.stepped, l.evictedBefore, l.demoted = false, l.facts.evicted, ""
}

// admit makes the master vote under record, empty for any; unless the connection is not the one any more, or a look is on
// its way that will tell: the lane may have begun it because it knows more.
func (l *lane) admit(c *laneConn, record string) {
	l.mu.Lock()
	if l.conn != c || !l.votes && l.looking || l.votes && l.record == record {
		l.mu.Unlock()
		return
	}
	fresh, runID := !l.votes, l.facts.runID
	l.votes, l.record = true, record
	l.setLocked(StateVoting, nil)
	l.warned, l.confined = "", false
	l.sendOwedLocked(time.Now(), false) // the top-ups
	l.mu.Unlock()
	l.decided()
	if fresh {
		l.log.Info("master votes", zap.String("master", l.names[l.index]), zap.String("run_id", runID))
	}
}

// hold keeps the master out of the vote, for a reason; unless the connection is not the one any more. brief says that
// it will soon be judged anew.
func (l *lane) hold(c *laneConn, s State, reason error, brief bool) {
	l.mu.Lock()
	if l.conn != c {
		l.mu.Unlock()
		return
	}
	l.stopVotingLocked(s, reason)
	q, inQuarantine := errors.AsType[*quarantine](reason)
	if inQuarantine && !l.confined {
		l.confined = true
		l.status.Quarantines++
	}
	l.mu.Unlock()
	if brief {
		return
	}
	topic := reason.Error()
	if inQuarantine {
		topic = q.topic()
	}
	l.warn(s, reason, topic)
	l.decided()
}

func (l *lane) stopVotingLocked(s State, reason error) {
	l.votes = false
	l.setLocked(s, reason)
}

// decided tells those who wait for it that it is known what the master is good for.
func (l *lane) decided() { l.once.Do(func() { close(l.first) }) }
