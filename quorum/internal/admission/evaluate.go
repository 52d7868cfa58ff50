package admission

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"lockproxy/quorum/internal/wire"
)

// evaluate decides about one master.
func (e *evaluation) evaluate(i int) {
	g, m := e.g, &e.g.masters[i]
	switch r := &m.rec; {
	case !m.up:
	case m.changing || m.stale:
		if m.votes() && g.o.Mode != Off && e.older[i] { // the change under way is only a note
			e.wait(i, &Quarantine{Cause: causeOlder, Since: e.now, names: g.o.Names}, true)
		}
	case m.o.ServerInfo.MayEvict() && !g.o.AllowEviction:
		e.refuse(i, mayEvictError(m.o.ServerInfo.Policy))
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
	case e.intact[i]:
		e.evaluateSurvivor(i)
	default:
		e.quarantine(i, m.cause(), record{})
	}
}

// evaluateVoter is for a master that has been admitted in its present run.
func (e *evaluation) evaluateVoter(i int) {
	g, m := e.g, &e.g.masters[i]
	f := &m.o.ServerInfo
	switch {
	case m.rec.fingerprint != g.fingerprint:
		e.refuse(i, g.otherSettings(i))
		return
	case m.o.Demoted:
		e.quarantine(i, causeDemoted, record{})
		return
	case f.Evicted > m.base.n:
		e.quarantine(i, causeEvicted, record{})
		return
	case m.o.Stepped:
		e.quarantine(i, causeClock, record{kept: true})
		return
	case e.older[i]:
		e.quarantine(i, causeOlder, record{})
		return
	case e.readmittedTooSoon(i):
		e.quarantine(i, causeFlushed, record{})
		return
	}
	until, missing := e.confirmed(i)
	if missing > 0 {
		e.wait(i, g.unconfirmed(i, missing, e.absent(i)), true)
		return
	}
	writes := m.o.Writes
	if m.last.admission == m.rec.admission {
		writes = max(writes, m.last.writes)
	}
	m.last = lastVote{knowledge{m.rec.admission, writes}, f.RunID, m.o.At}
	e.do(i, Action{Kind: ActVote, Record: m.o.Record, Until: until})
	switch counts := m.o.Durable == f.RunID && m.o.Writes > 0; {
	case f.Durable() && !counts:
		e.change(i, e.durability(i, f.RunID))
	case f.Perishable() && m.o.Durable != "":
		e.change(i, e.durability(i, ""))
	}
}

// readmittedTooSoon reports whether a master was admitted again sooner after its last vote than a
// quarantine lasts, and not with the memory of before: others have taken a deployment for new.
func (e *view) readmittedTooSoon(i int) bool {
	m := &e.g.masters[i]
	if m.last.id == "" || m.last.admission == m.rec.admission {
		return false
	}
	// A virtual machine may have been paused, which only the wall clock shows.
	since := max(e.now.Sub(m.last.at), e.now.Round(0).Sub(m.last.at.Round(0)))
	return since < wire.Life(e.g.o.MaxTTL) && !m.rec.sameMemory(m.last.admission)
}

// durability returns the change that leaves the record and sets whether the master is durable.
func (e *view) durability(i int, durable string) RecordUpdate {
	record := e.g.masters[i].o.Record
	return RecordUpdate{From: record, To: record, Settings: keep, Known: keep, Durable: durable, Writes: e.firstWrite()}
}

// firstWrite is the first count of packets of a durable master.
func (e *view) firstWrite() uint64 { return uint64(max(e.now.UnixMilli(), 1)) }

// confirmed returns until when the vote of a master counts. A majority of all masters must know of
// exactly its admission, itself included; missing is how many more are needed.
//
// With fewer than a majority of masters at hand the master counts by itself: no majority of votes
// can come of it, and its state should not look like the fault.
func (e *view) confirmed(i int) (until time.Time, missing int) {
	g, m := e.g, &e.g.masters[i]
	at, hand := []time.Time{m.o.Sent}, 1
	for j := range g.masters {
		o := &g.masters[j]
		if j == i || !e.intact[j] {
			continue
		}
		hand++
		if !e.older[j] && o.known[i].admission == m.rec.admission {
			at = append(at, o.o.Sent)
		}
	}
	switch {
	case hand < g.majority():
		return m.o.Sent.Add(MaxAge), 0
	case len(at) < g.majority():
		return time.Time{}, g.majority() - len(at)
	}
	own := m.o.Sent
	slices.SortFunc(at, func(a, b time.Time) int { return b.Compare(a) })
	if last := at[g.majority()-1]; last.Before(own) {
		own = last
	}
	return own.Add(MaxAge), 0
}

// absent are the other masters that cannot speak for or against an admission of this one: they are
// not connected.
func (e *view) absent(i int) (all []int) {
	for j := range e.g.masters {
		if j != i && !e.g.masters[j].up {
			all = append(all, j)
		}
	}
	return all
}

// unasked are the other masters that have not been observed since this one was met. They may know
// that it went back, and so may every master that restarted, so no other's word takes the place of
// theirs. At until, all that restarted with their memory and do not vote yet have been met for
// MaxAge: those that are still silent count as away.
func (e *view) unasked(i int) (all []int, until time.Time) {
	met := e.g.masters[i].met
	last := met
	for j := range e.g.masters {
		m := &e.g.masters[j]
		if j != i && m.o.Sent.Before(met) {
			all = append(all, j)
		}
		if e.intact[j] && !m.current() && m.met.After(last) {
			last = m.met
		}
	}
	return all, last.Add(MaxAge)
}

// evaluateUnguarded is evaluate with Off.
func (e *evaluation) evaluateUnguarded(i int) {
	g, m := e.g, &e.g.masters[i]
	switch r := &m.rec; {
	case r.kind == recordOff: // with the guard off proxies do not compare settings
		e.do(i, Action{Kind: ActVote})
	case r.kind == recordNone:
		off := record{kind: recordOff, fingerprint: g.fingerprint}
		e.change(i, RecordUpdate{To: off.String(), Settings: g.settings.String(), Known: keep, Durable: keep})
	case r.kind == recordMark && r.fingerprint == g.fingerprint && m.current():
		e.evaluateMarked(i)
	case r.kind == recordMark && r.fingerprint == g.fingerprint:
		e.quarantine(i, causeMoved, record{fingerprint: g.fingerprint, kept: m.hasCounters()})
	default:
		e.refuse(i, g.otherSettings(i))
	}
}

// hasCounters reports whether the counters of a master are whole.
func (m *master) hasCounters() bool { return m.votes() || m.marked() && m.rec.kept }

// superseded reports whether the record on a master is not that of its last admission: its
// address, or its database, went back to an older state.
func (e *view) superseded(i int) bool {
	g, a := e.g, e.g.masters[i].rec.admission
	if a.number > 0 && !strings.HasPrefix(a.id, g.placeText(i)) {
		return true // it was admitted in the place of another master
	}
	for j := range g.masters {
		if j != i && e.intact[j] && g.masters[j].known[i].supersedes(a) {
			return true
		}
	}
	return g.masters[i].last.supersedes(a) && e.remembers(i)
}

// survived reports whether a restarted master proves that it kept its memory: the record of
// its last run, which says that this run had every write on disk before its reply; an append-only
// file that is still read; a clock that was not set, which would have expired keys; and a count of
// packets that is not below any that this proxy or another master knows.
func (g *Guard) survived(i int) bool {
	m := &g.masters[i]
	r := &m.rec
	if r.kind != recordVotes || m.current() || r.fingerprint != g.fingerprint ||
		m.o.Durable != r.runID || m.o.Writes == 0 || !m.o.ServerInfo.AOF || m.o.Stepped {
		return false
	}
	if m.last.admission == r.admission && m.o.Writes < m.last.writes {
		return false
	}
	for j := range g.masters {
		if k := g.masters[j].known[i]; j != i && g.masters[j].up && k.admission == r.admission && m.o.Writes < k.writes {
			return false
		}
	}
	return true
}

// evaluateSurvivor is for a restarted master that kept its memory. Its next admission needs no
// quarantine, if a majority confirms the last one, and no other with its memory knows better.
func (e *evaluation) evaluateSurvivor(i int) {
	g := e.g
	m := &g.masters[i]
	lost, missing := 0, g.majority()-1-e.confirmers(i, m.met)
	unasked, until := e.unasked(i)
	for j := range g.masters {
		if j != i && g.masters[j].up && !e.intact[j] {
			lost++
		}
	}
	switch {
	case e.older[i], len(g.masters)-lost < g.majority():
		e.quarantine(i, causeRestarted, record{})
	case len(e.absent(i))+lost > len(g.masters)-g.majority():
		missing = len(e.absent(i)) + lost - (len(g.masters) - g.majority())
		e.wait(i, g.unconfirmed(i, missing, e.absent(i)), false)
	case missing > 0:
		e.probeBefore(m.met)
		e.wait(i, g.unconfirmed(i, missing, e.absent(i)), true)
	case len(unasked) > 0 && e.now.Before(until):
		e.probeBefore(m.met)
		e.wait(i, g.unheard(unasked), true)
		e.again(until)
	default:
		n := e.newAdmission(i)
		n.id = m.rec.id[:min(memoryID, len(m.rec.id))] + n.id[min(memoryID, len(n.id)):]
		c := e.admission(i, n)
		c.warning = "master restarted with all that it had on disk, admitted at once: " + g.o.Names[i]
		e.change(i, c)
	}
}

// foreign is the reason of a master that belongs to proxies with other settings or of another
// version. It names both ways out. here is what makes this proxy one of those.
func (g *Guard) foreign(i int, what, here string) Named {
	text := what + ": " + here
	return &naming{names: g.o.Names, text: func(func(int) string) string { return text },
		remedy: ", or stop those proxies and send LOCKPROXY ADMIT " + g.o.Names[i] + " to this one"}
}

const sameSettings = "set the same here"

func (g *Guard) otherSettings(i int) error {
	theirs := parseSettings(g.masters[i].o.Settings)
	return g.foreign(i, "belongs to proxies with "+differ(theirs, g.settings), sameSettings)
}

func (g *Guard) errMoving(i int) error {
	return g.foreign(i, "is being moved to proxies with other settings", sameSettings)
}

func (g *Guard) otherVersion(i int) error {
	return g.foreign(i, "has a record of another version of lockproxy", "run that version here")
}

// unheard is the reason of a restarted master of which these others may know more.
func (g *Guard) unheard(others []int) Named {
	return Naming(g.o.Names, func(name func(int) string) string {
		names := make([]string, len(others))
		for k, j := range others {
			names[k] = name(j)
		}
		return fmt.Sprintf("restarted, waits for an answer of %s, %v at most", strings.Join(names, ", "), MaxAge)
	})
}

// unconfirmed is the reason of a master whose admission too few others confirm.
func (g *Guard) unconfirmed(i, missing int, absent []int) Named {
	return Naming(g.o.Names, func(name func(int) string) string {
		var text strings.Builder
		text.WriteString(fmt.Sprintf("waits for %d more to confirm its admission", missing))
		for k, j := range absent {
			if k == 0 {
				text.WriteString(": start " + name(j))
			} else {
				text.WriteString(", " + name(j))
			}
		}
		return text.String()
	})
}
