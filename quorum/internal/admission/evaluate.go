package admission

import "strings"

// evaluate decides about one master.
func (e *evaluation) evaluate(i int) {
	g, m := e.g, &e.g.masters[i]
	switch r := &m.rec; {
	case !m.up:
	case m.changing || m.stale:
		if m.votes() && g.o.Mode != Off && e.older(i) { // the change under way is only a note
			e.wait(i, &Quarantine{Cause: causeOlder, Since: e.now, names: g.o.Names}, true)
		}
	case m.o.Facts.MayEvict() && !g.o.AllowEviction:
		e.refuse(i, mayEvictError(m.o.Facts.Policy))
	case r.kind == recordUnknown:
		e.refuse(i, g.otherVersion(i))
	case g.o.Mode == Off:
		e.evaluateUnguarded(i)
	case r.kind == recordOff:
		e.refuse(i, g.otherSettings(i))
	case m.votes():
		e.evaluateVoter(i)
	case m.marked():
		e.evaluateMarked(i)
	case m.isNew(), m.blank():
		e.evaluateNew(i)
	case e.survived(i):
		e.quarantine(i, causeRestarted, record{kept: true, durable: true})
	default:
		e.quarantine(i, m.cause(), record{})
	}
}

// evaluateVoter is for a master that has been admitted in its present run.
func (e *evaluation) evaluateVoter(i int) {
	g, m := e.g, &e.g.masters[i]
	f := &m.o.Facts
	switch {
	case m.rec.fingerprint != g.fingerprint:
		e.refuse(i, g.otherSettings(i))
	case m.o.Demoted:
		e.quarantine(i, causeDemoted, record{})
	case f.Evicted > m.base.n:
		e.quarantine(i, causeEvicted, record{})
	case m.o.Stepped:
		// Without fencing nobody keeps the counters up.
		e.quarantine(i, causeClock, record{kept: parseSettings(m.o.Settings).value("fencing") == "on"})
	case e.older(i):
		e.quarantine(i, causeOlder, record{})
	default:
		m.voted = votedAs{m.rec.admission, f.RunID, m.o.Durable == f.RunID && !f.Perishable(), m.o.At}
		e.do(i, Action{Kind: ActVote, Record: m.o.Record})
		switch {
		case f.Durable() && m.o.Durable != f.RunID:
			e.change(i, Change{From: m.o.Record, To: m.o.Record, Settings: keep, Known: keep, Durable: f.RunID})
		case f.Perishable() && m.o.Durable != "":
			e.change(i, Change{From: m.o.Record, To: m.o.Record, Settings: keep, Known: keep})
		}
	}
}

// evaluateUnguarded is evaluate with Off.
func (e *evaluation) evaluateUnguarded(i int) {
	g, m := e.g, &e.g.masters[i]
	switch r := &m.rec; {
	case r.kind == recordOff: // with the guard off nobody compares settings
		e.do(i, Action{Kind: ActVote})
	case r.kind == recordNone:
		off := record{kind: recordOff, fingerprint: g.fingerprint}
		e.change(i, Change{To: off.String(), Settings: g.settings.String(), Known: keep})
	case r.kind == recordMark && r.fingerprint == g.fingerprint && m.current():
		e.evaluateMarked(i)
	case r.kind == recordMark && r.fingerprint == g.fingerprint:
		e.quarantine(i, causeMoved, record{fingerprint: g.fingerprint, kept: m.countersKept()})
	default:
		e.refuse(i, g.otherSettings(i))
	}
}

// newest is the latest admission of a master that this proxy knows of from others, or remembers.
func (e *evaluation) newest(i int) (top admission) {
	g := e.g
	for j := range g.masters {
		if other := &g.masters[j]; j != i && other.up && other.known[i].later(top) {
			top = other.known[i]
		}
	}
	if v := &g.masters[i].voted; v.later(top) && e.remembers(i) {
		top = v.admission
	}
	return top
}

// remembers reports whether this proxy saw the master vote so lately that a lock granted then may
// still be held. If that is longer ago, it believes what the other masters know.
func (e *evaluation) remembers(i int) bool {
	return e.now.Sub(e.g.masters[i].voted.at) < hold(e.g.o.MaxTTL)+MaxAge
}

// superseded reports whether a is not the last admission of a master: its address, or its
// database, went back to an older state.
func (e *evaluation) superseded(i int, a admission) bool {
	g, v := e.g, &e.g.masters[i].voted
	if a.number > 0 && !strings.HasPrefix(a.id, g.placeText(i)) {
		return true // it was admitted in the place of another master
	}
	for j := range g.masters {
		if other := &g.masters[j]; j != i && other.up && other.known[i].supersedes(a) {
			return true
		}
	}
	return v.supersedes(a) && e.remembers(i)
}

// older reports whether the record on a master is superseded.
func (e *evaluation) older(i int) bool { return e.superseded(i, e.g.masters[i].rec.admission) }

// tell makes a master hear of admissions of others that it has not heard of.
func (e *evaluation) tell(i int) {
	g, m := e.g, &e.g.masters[i]
	if g.o.Mode == Off || !m.up || m.telling || m.changing || !g.ours(m) {
		return
	}
	known := e.known()
	for j, a := range known {
		if j != i && a.later(m.known[j]) {
			m.telling = true
			e.do(i, Action{Kind: ActTell, Known: g.knownText(known)})
			return
		}
	}
}

// ours reports whether the master votes for proxies with these settings, or is in quarantine.
func (g *Guard) ours(m *master) bool {
	return m.votes() && m.rec.fingerprint == g.fingerprint || m.marked()
}

// known is the last admission of every master, as far as this proxy knows.
func (e *evaluation) known() []admission {
	known := make([]admission, len(e.g.masters))
	for i := range known {
		known[i] = e.newest(i)
		m := &e.g.masters[i]
		if m.up && e.g.ours(m) && m.rec.later(known[i]) {
			known[i] = m.rec.admission
		}
	}
	return known
}

// Told is told how an ActTell ended: known is what the master knows now. err is the reason why
// that is not known. Evaluate follows.
func (g *Guard) Told(a *Action, known string, err error) {
	m := &g.masters[a.Master]
	if err != nil || a.Conn != m.o.Conn {
		return // telling stays set until the next observation
	}
	m.telling, m.known = false, g.parseKnown(known)
}
