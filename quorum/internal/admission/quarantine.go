package admission

import (
	"slices"
	"time"
)

// margin is added to a wait, for clocks that run at different rates and for Redis' expiry.
func margin(wait time.Duration) time.Duration { return wait/100 + 52*time.Millisecond }

// hold is how long a master is kept out of the vote: nothing lasts longer that was granted before
// the others knew of it.
//
// A proxy whose connection stays on an older state of the master may count that for up to MaxAge
// more. So a lock with a ttl within MaxAge of max-ttl is not quite covered where an address leads
// to two servers at once.
func hold(ttl time.Duration) time.Duration { return ttl + margin(ttl) }

// quarantine puts a mark in the place of whatever record there is. like has the flags of the mark.
//
// The mark is the next admission of the master: its number is announced to the others from now on,
// so that no proxy believes an older state of it. When enough know of it the wait begins.
func (e *evaluation) quarantine(i int, cause string, like record) {
	e.wait(i, &Quarantine{Cause: cause, Since: e.now, Until: e.now.Add(hold(e.g.o.MaxTTL)), names: e.g.o.Names}, true)
	e.change(i, e.mark(i, cause, like))
	if m := &e.g.masters[i]; !m.votes() && !m.marked() && !m.isNew() && !like.kept && m.mark.since.IsZero() {
		m.mark = standing{runID: m.o.Facts.RunID, since: e.now}
	}
}

func (e *evaluation) mark(i int, cause string, like record) Change {
	m := &e.g.masters[i]
	number := max(m.rec.number, e.newest(i).number, m.voted.number, m.mark.number) + 1
	like.kind, like.runID, like.cause = recordMark, m.o.Facts.RunID, cause
	like.wait = max(e.g.o.MaxTTL, m.rec.wait, parseSettings(m.o.Settings).maxTTL())
	like.nonce = nonce{admission{number, e.g.idFor(i, e.g.o.Nonce())}, m.o.Facts.Evicted}
	return Change{From: m.o.Record, To: like.String(), Settings: keep, Known: e.g.knownText(e.known()), Durable: keep}
}

// evaluateMarked is for a master in quarantine.
func (e *evaluation) evaluateMarked(i int) {
	g, m := e.g, &e.g.masters[i]
	if m.o.Stepped || m.o.Demoted {
		e.do(i, Action{Kind: ActForgive})
	}
	off := g.o.Mode == Off
	switch {
	case m.rec.fingerprint != "" && m.rec.fingerprint != g.fingerprint:
		e.refuse(i, g.moving(i))
		return
	case !off && e.older(i):
		e.quarantine(i, causeOlder, record{fingerprint: m.rec.fingerprint, override: m.rec.override})
		return
	}
	m.mark.noMajority = m.mark.noMajority || e.majorityLost(i)
	reason := &Quarantine{Cause: m.rec.cause, Since: m.mark.since, master: i, names: g.o.Names}
	until, known := e.ends(i, reason)
	switch foreign, moved := e.foreign(); {
	case off:
	case len(foreign) > 0:
		reason.waits, reason.missing = waitsForMoves, foreign
	case moved.After(until):
		until = moved
	}
	reason.Until = until
	switch {
	case !off && g.o.Fencing && g.o.Floors.top() > 0 && !m.mark.floored && m.mark.noMajority:
		// Whichever proxy ends the quarantine, it finds what this one knows.
		m.mark.floored = true
		all := g.o.Floors.counters()
		e.wait(i, reason, true)
		e.change(i, Change{From: m.o.Record, To: m.o.Record, Settings: keep, Known: keep, Durable: keep,
			Floor: g.floor(e.now), Counters: all.String()})
	case reason.waits != waitsForNothing || !known:
		e.wait(i, reason, !known)
	case e.now.Before(until):
		e.again(until)
		e.wait(i, reason, false)
	case m.rec.durable:
		c := g.admit(i, m.rec.admission, e.known())
		c.warning = "master restarted with all that it had on disk, admitted at once: " + g.o.Names[i]
		e.change(i, c)
	case !off && g.o.Fencing && !m.rec.override && e.awaited(i, reason):
		e.wait(i, reason, false)
	default:
		e.due = append(e.due, i)
	}
}

// ends is when the quarantine of a master has lasted long enough. known is false where nobody can
// say yet, as other masters are still being told of the quarantine. What it waits for is put into
// reason.
//
// The wait begins anew with each master that is told, until enough have been. Where the memory of
// this one is lost, those that lost theirs do not count: their addresses may lead others to servers
// that have it. The wait goes on beside a master that answers and cannot be told. It is told once
// more when it is asked for its counters.
func (e *evaluation) ends(i int, reason *Quarantine) (until time.Time, known bool) {
	g, m := e.g, &e.g.masters[i]
	wait, needed := hold(max(m.rec.wait, g.o.MaxTTL)), min(g.majority(), len(g.masters)-1)
	if m.rec.durable {
		wait, needed = 0, g.majority()-1
	}
	up := 0
	var missing []int
	for j := range g.masters {
		switch o := &g.masters[j]; {
		case j == i || slices.Contains(m.mark.told, j):
		case !o.up:
			missing = append(missing, j)
		case (m.rec.kept || o.countersKept()) && o.known[i] == m.rec.admission && len(m.mark.told) < needed:
			m.mark.told, m.mark.toldAt = append(m.mark.told, j), e.now
		default:
			up++
		}
	}
	needed -= len(m.mark.told)
	switch {
	case g.o.Mode == Off || m.rec.override || m.mark.noMajority:
		return m.mark.since.Add(wait), true
	case needed <= 0:
	case m.rec.durable && up >= needed:
		return e.now, false
	case up < needed && (g.o.Fencing || m.rec.durable):
		reason.waits, reason.needed, reason.missing = waitsForMasters, needed-up, missing
	}
	until = m.mark.toldAt.Add(wait)
	if needed > 0 && !e.now.Before(until) {
		until = until.Add(startGrace) // perhaps they can be told
	}
	return until, true
}

// foreign are the masters that answer and vote for proxies with other settings. until is when
// those proxies no longer count on a master that was moved from them. They may have had another
// majority: what they granted must have run out before any master is admitted.
func (e *evaluation) foreign() (all []int, until time.Time) {
	for i := range e.g.masters {
		m := &e.g.masters[i]
		switch {
		case !m.up:
		case (m.votes() || m.rec.kind == recordOff) && m.rec.fingerprint != e.g.fingerprint:
			all = append(all, i)
		case m.marked() && m.rec.fingerprint != "":
			if end := m.mark.since.Add(hold(max(m.rec.wait, e.g.o.MaxTTL))); end.After(until) {
				until = end
			}
		}
	}
	return all, until
}

// survived reports whether a restart can have lost nothing. The record of the run before must be
// there, and neither this proxy nor another master may know a later one. The record must say that
// this run kept everything on disk before it answered. The server must still read what it kept.
// And its clock must not have been set meanwhile, which would have made keys run out. Nor may it
// have been found without its memory since it voted.
func (e *evaluation) survived(i int) bool {
	m := &e.g.masters[i]
	r, last := &m.rec, &m.voted
	found := m.mark.admission == (admission{}) && m.mark.runID != ""
	return !found && r.kind == recordVotes && r.fingerprint == e.g.fingerprint && m.o.Durable == r.runID && m.o.Facts.AOF && !m.o.Stepped &&
		!e.older(i) && (last.runID == "" || last.runID == r.runID && last.durable)
}

// cause is why a master without a record of its present run has none, as far as it is known.
func (m *master) cause() string {
	switch {
	case m.rec.runID != "" && !m.current(), m.voted.runID != "" && m.voted.runID != m.o.Facts.RunID:
		return causeRestarted
	case m.voted.runID != "":
		return causeFlushed
	}
	return causeNew
}
