package quorum

import (
	"strings"
	"time"
)

// judge says what to do about a master. The guard's mu is held.
func (g *guard) judge(i int, now time.Time) ruling {
	m := &g.masters[i]
	none := ruling{lane: i, conn: m.view.conn}
	if !m.up || m.changing || m.stale {
		return none
	}
	r := m.record
	switch {
	case m.view.facts.mayEvict() && !g.q.opts.AllowEviction:
		return m.refuse(none, mayEvictError(m.view.facts.policy))
	case r.kind == recordUnknown:
		return m.refuse(none, errUnknownRecord)
	case g.mode == GuardOff:
		return g.judgeUnguarded(none, m, now)
	case r.kind == recordOff:
		return m.refuse(none, &otherSettings{parseSettings(m.view.settings), g.ours})
	case m.votes():
		return g.judgeVoter(none, m, now)
	case r.kind == recordMark && m.current():
		return g.judgeMark(none, m, now)
	case r.kind == recordOpening && m.current(), m.blank():
		return g.judgeNew(none, m, now)
	case g.survived(m):
		return g.admitAgain(none, m)
	}
	return g.quarantine(none, m, m.cause(), false)
}

// refuse is for what only the operator can change.
func (m *known) refuse(s ruling, reason error) ruling {
	s.kind, s.state, s.reason = ruledHold, StateRefused, reason
	return s
}

// judgeVoter is for a master that has been admitted in its present run.
func (g *guard) judgeVoter(s ruling, m *known, now time.Time) ruling {
	f := &m.view.facts
	switch {
	case m.record.fingerprint != g.fingerprint:
		return m.refuse(s, &otherSettings{parseSettings(m.view.settings), g.ours})
	case m.view.demoted:
		return g.quarantine(s, m, causeDemoted, false)
	case m.view.evicted:
		return g.quarantine(s, m, causeEvicted, false)
	case m.view.stepped:
		return g.quarantine(s, m, causeClock, true)
	case g.contradicted(m, now):
		return g.quarantine(s, m, causeFlushed, false)
	case f.durable() && m.view.durable != f.runID:
		return g.note(s, m, f.runID)
	case f.perishable() && m.view.durable != "":
		return g.note(s, m, "")
	}
	s.kind, s.record = ruledVote, m.view.record
	return s
}

// contradicted reports whether the master was admitted as part of a new deployment although this proxy saw it vote
// just before: another, which had seen none of that, came when all masters had been emptied.
func (g *guard) contradicted(m *known, now time.Time) bool {
	return m.view.born != "" && g.remembers(m, now)
}

// remembers reports whether this proxy saw the master vote under another record, so lately that a lock of then may last.
func (g *guard) remembers(m *known, now time.Time) bool {
	wait := g.q.opts.MaxTTL
	return m.voted.record != "" && m.voted.record != m.view.record && now.Sub(m.voted.at) < wait+margin(wait)
}

// note sets or takes away the durable mark of a master that goes on voting.
func (g *guard) note(s ruling, m *known, durable string) ruling {
	s.kind = ruledChange
	s.change = change{from: m.view.record, to: m.record, settings: "-", born: "-", durable: durable}
	return s
}

// judgeMark is for a master in quarantine.
func (g *guard) judgeMark(s ruling, m *known, now time.Time) ruling {
	if m.record.fingerprint != "" && m.record.fingerprint != g.fingerprint {
		return m.refuse(s, errMoving)
	}
	until, held := g.markEnds(m), false
	if g.mode != GuardOff {
		var moved time.Time
		if held, moved = g.foreign(now); moved.After(until) {
			until = moved
		}
	}
	s.kind, s.state = ruledHold, StateQuarantined
	switch {
	case now.Before(until):
		s.reason, s.again = &quarantine{cause: m.record.cause, since: m.mark.since, until: until}, until
	case held:
		s.reason = &quarantine{cause: m.record.cause, since: m.mark.since, waits: waitsForOthers}
	default:
		s.kind = ruledDue
	}
	return s
}

// judgeNew is for a master with nothing on it, or with the sign that it was so while all were.
func (g *guard) judgeNew(s ruling, m *known, now time.Time) ruling {
	opening := m.record.kind == recordOpening
	if opening && g.mode == GuardOn && !g.remembers(m, now) {
		if born, ok := g.bornWith(m.record.nonce); ok {
			return g.open(s, m, born)
		}
	}
	if !g.fresh() {
		return g.quarantine(s, m, m.cause(), false)
	}
	all, marked, nonces, seen := g.opening()
	switch {
	case all && marked && !g.lookedSince(seen):
		// That each was marked when it was looked at does not say that all were at one time: the first may have voted
		// when the last was marked. Those that still stand after the last was seen did.
		s.kind = ruledLook
		return s
	case all && marked:
		return g.open(s, m, strings.Join(nonces, ","))
	case all && !opening:
		s.kind = ruledChange
		s.change = change{empty: true, to: record{kind: recordOpening, runID: m.view.facts.runID, nonce: g.q.opts.dice.newNonce()}, settings: "-", born: "-", durable: "-"}
		return s
	case all:
		return s // the others are being marked
	}
	until := g.met.Add(g.grace())
	if now.Before(until) {
		s.kind, s.state, s.reason, s.brief, s.again = ruledHold, StateQuarantined, errWaitsForAll, true, until
		return s
	}
	return g.quarantine(s, m, causeNew, false)
}

// open admits a master of a new deployment.
func (g *guard) open(s ruling, m *known, born string) ruling {
	s.kind = ruledChange
	s.change = g.admission(m)
	s.change.born, s.change.floor = born, g.clockFloor()
	s.change.says = "all masters are new: taken for a new deployment, admitted at once"
	return s
}

// admission is the change that lets a master vote.
func (g *guard) admission(m *known) change {
	c := change{from: m.view.record, settings: g.ours.String(), to: record{kind: recordVotes, runID: m.view.facts.runID,
		fingerprint: g.fingerprint, nonce: g.q.opts.dice.newNonce()}}
	if m.view.facts.durable() {
		c.durable = m.view.facts.runID
	}
	return c
}

// survived reports whether a restart can have lost nothing: the record of the run before is there, it says that this run
// kept everything on disk before it answered, the server still reads what it kept, no later run is known and nothing later of
// this one, and its clock was not set meanwhile, which would have made keys run out.
func (g *guard) survived(m *known) bool {
	r, last := m.record, &m.voted
	return r.kind == recordVotes && r.fingerprint == g.fingerprint && m.view.durable == r.runID && m.view.facts.aof && !m.view.stepped &&
		(last.runID == "" || last.runID == r.runID && last.durable)
}

func (g *guard) admitAgain(s ruling, m *known) ruling {
	s.kind, s.change = ruledChange, g.admission(m)
	s.change.says = "master restarted with all that it had on disk, admitted at once: " + g.q.lanes[s.lane].names[s.lane]
	return s
}

// quarantine puts a mark in the place of whatever record there is.
func (g *guard) quarantine(s ruling, m *known, cause string, kept bool) ruling {
	wait := max(g.q.opts.MaxTTL, m.record.wait, parseSettings(m.view.settings).maxTTL())
	kept = kept && parseSettings(m.view.settings).value("fencing") == "on" // without, counters are not kept up
	s.kind = ruledChange
	s.change = change{from: m.view.record, settings: "-",
		to: record{kind: recordMark, runID: m.view.facts.runID, nonce: g.q.opts.dice.newNonce(), wait: wait, kept: kept, cause: cause}}
	return s
}

// cause is why a master without a record of its present run has none, as far as it is known.
func (m *known) cause() string {
	switch {
	case m.record.runID != "" && !m.current(), m.voted.runID != "" && m.voted.runID != m.view.facts.runID:
		return causeRestarted
	case m.voted.runID != "":
		return causeFlushed
	}
	return causeNew
}

// judgeUnguarded is judge with GuardOff.
func (g *guard) judgeUnguarded(s ruling, m *known, now time.Time) ruling {
	off := record{kind: recordOff, fingerprint: g.fingerprint}
	switch r := m.record; {
	case r.kind == recordOff: // with the guard off nobody compares settings
		s.kind = ruledVote
		return s
	case r.kind == recordNone:
		s.kind, s.change = ruledChange, change{to: off, settings: g.ours.String(), durable: ""}
		return s
	case r.kind == recordMark && r.fingerprint == g.fingerprint:
		if !m.current() {
			return g.moveTo(s, m)
		}
		return g.judgeMark(s, m, now)
	}
	return m.refuse(s, &otherSettings{parseSettings(m.view.settings), g.ours})
}
