package admission

import (
	"slices"
	"time"

	"lockproxy/quorum/internal/wire"
)

// hold is how long a master stays out of the vote where ttl is max-ttl: locks granted before the
// others learned of its quarantine have expired then. If ttl is promised, masters keep a lock
// longer. Another proxy may count older evidence for MaxAge. The rest is for clocks that run at
// different rates and for Redis' expiry.
func hold(ttl time.Duration) time.Duration {
	life := wire.Life(ttl)
	return life + life/100 + 52*time.Millisecond + MaxAge
}

// quarantine replaces the record of a master by a mark with the flags of like.
//
// The mark is the next admission of the master. The others learn of it from now on, and no longer
// confirm the last one. The wait begins when enough of them have.
func (e *evaluation) quarantine(i int, cause string, like record) {
	e.wait(i, &Quarantine{Cause: cause, Since: e.now, Until: e.now.Add(hold(e.g.o.MaxTTL)), names: e.g.o.Names}, true)
	e.change(i, e.newMark(i, cause, like))
	if m := &e.g.masters[i]; !m.votes() && !m.marked() && !m.isNew() && !like.kept && m.mark.since.IsZero() {
		m.mark = seenMark{runID: m.o.ServerInfo.RunID, since: e.now}
	}
}

func (e *view) newMark(i int, cause string, like record) RecordUpdate {
	m := &e.g.masters[i]
	like.kind, like.runID, like.cause, like.nonce = recordMark, m.o.ServerInfo.RunID, cause, e.newAdmission(i)
	like.wait = max(e.g.o.MaxTTL, m.rec.wait, parseSettings(m.o.Settings).maxTTL())
	c := RecordUpdate{From: m.o.Record, To: like.String(), Settings: keep, Known: keep, Durable: keep}
	if !like.kept {
		c.Known = "" // it may be as old as the rest
	}
	return c
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
		e.refuse(i, g.errMoving(i))
		return
	case !off && e.older[i]:
		e.quarantine(i, causeOlder, record{fingerprint: m.rec.fingerprint, override: m.rec.override})
		return
	}
	lost := e.lost()
	m.mark.noMajority = m.mark.noMajority || len(g.masters)-len(lost) < g.majority()
	m.mark.few = m.mark.few || len(g.masters)-1-len(without(lost, i)) < e.learners()
	reason := &Quarantine{Cause: m.rec.cause, Since: m.mark.since, master: i, names: g.o.Names}
	e.noteLearners(i)
	var until time.Time
	until, reason.condition = e.quarantineEnd(i)
	if foreign, moved := e.foreign(); !off && len(foreign) > 0 {
		reason.waits, reason.missing = waitsForMoves, foreign
	} else if !off && moved.After(until) {
		until = moved
	}
	reason.Until = until
	switch {
	case !off && g.o.Fencing && g.o.Floor.Top() > 0 && !m.mark.floored && m.mark.noMajority:
		// Another proxy that ends the quarantine finds the floor of this one.
		m.mark.floored = true
		e.wait(i, reason, true)
		e.change(i, RecordUpdate{From: m.o.Record, To: m.o.Record, Settings: keep, Known: keep, Durable: keep,
			Floor: g.o.Floor.Top()})
	case reason.waits != waitsForNothing:
		e.wait(i, reason, false)
	case e.now.Before(until):
		e.again(until)
		e.wait(i, reason, false)
	default:
		e.end(i, until, reason)
	}
}

// quarantineEnd returns when the quarantine of a master ends, and the condition that it waits for
// besides time.
//
// N - majority + 1 masters other than this one must know of the mark. Each confirmation of an
// older admission needs a majority too, so it meets one of them. The wait begins when the last of
// them has learned. A master that lost its memory does not count: its address may lead others to a
// server that has it. One that refused a write just now is not waited for.
//
// If too few have kept their memory, On admits with the masters that answer;
// Strict needs all masters, one of them with its memory.
func (e *view) quarantineEnd(i int) (until time.Time, c condition) {
	g, m := e.g, &e.g.masters[i]
	needed := e.learners()
	learned, excused, intact := e.learned(i)
	c.missing = e.absent(i)
	until = m.mark.learnedAt
	switch {
	case g.o.Mode == Off || m.rec.override || m.mark.few && g.o.Mode == On:
		return m.mark.since.Add(e.hold(i)), c
	case m.mark.few && intact == 0 && len(c.missing) == 0:
		c.waits = waitsForOperator
	case m.mark.few && len(c.missing) > 0:
		c.waits, c.needed = waitsForMasters, len(c.missing)
	case learned+excused < min(needed, intact) && (intact >= needed || m.mark.few):
		until = e.now // they are about to learn
	case m.mark.few: // a lost one confirmed an older admission until it was lost
		for _, j := range e.lost() {
			if since := g.masters[j].mark.since; since.After(until) {
				until = since
			}
		}
	case learned+excused < needed && len(c.missing) == 0 && g.o.Mode == On:
		until = e.now // the next probes show that too few have kept their memory
	case learned+excused < needed:
		c.waits, c.needed = waitsForMasters, needed-intact
	}
	until = until.Add(e.hold(i))
	if learned < needed && !m.mark.few && !e.now.Before(until) {
		until = until.Add(startGrace) // perhaps the others can be written again
	}
	return until, c
}

func (e *view) hold(i int) time.Duration {
	return hold(max(e.g.masters[i].rec.wait, e.g.o.MaxTTL))
}

// noteLearners notes which others know of the mark on master i, until enough do.
func (e *evaluation) noteLearners(i int) {
	m := &e.g.masters[i]
	for j := range e.g.masters {
		if j != i && e.intact[j] && e.knowsMark(j, i) && len(m.mark.learners) < e.learners() &&
			!slices.Contains(m.mark.learners, j) {
			m.mark.learners, m.mark.learnedAt = append(m.mark.learners, j), e.now
		}
	}
}

// knowsMark reports whether master j knows of exactly the admission on master i.
func (e *view) knowsMark(j, i int) bool {
	return !e.older[j] && e.g.masters[j].known[i].admission == e.g.masters[i].rec.admission
}

// learned counts the others with their memory, those of them that know of the mark on master i,
// and the ones that do not and refused a write just now.
func (e *view) learned(i int) (learned, excused, intact int) {
	m := &e.g.masters[i]
	for j := range e.g.masters {
		o := &e.g.masters[j]
		remembered := slices.Contains(m.mark.learners, j)
		switch {
		case j == i:
			continue
		case m.rec.kept && !o.up && remembered: // the marked one remembers, too
			learned++
			intact++
			continue
		case !e.intact[j]:
			continue
		}
		intact++
		switch {
		case remembered, e.knowsMark(j, i):
			learned++
		case e.g.o.Mode == On && e.now.Sub(o.refused) < MaxAge:
			excused++
		}
	}
	return learned, excused, intact
}

// confirmers is how many others have been observed since then to know of exactly the admission on
// master i.
func (e *view) confirmers(i int, since time.Time) (n int) {
	for j := range e.g.masters {
		if j != i && e.intact[j] && e.knowsMark(j, i) && !e.g.masters[j].o.Sent.Before(since) {
			n++
		}
	}
	return n
}

// learners is how many others must learn of a mark.
func (e *view) learners() int {
	return min(len(e.g.masters)-e.g.majority()+1, len(e.g.masters)-1)
}

// lost are the masters without their memory that were so at one time: each was observed after the
// last of them was found so.
func (e *view) lost() (all []int) {
	var last time.Time
	for i := range e.g.masters {
		if m := &e.g.masters[i]; m.up && m.lost() && m.mark.since.After(last) {
			last = m.mark.since
		}
	}
	for i := range e.g.masters {
		if m := &e.g.masters[i]; m.up && m.lost() && !(m.o.Sent.Before(last) && m.mark.since.Before(last)) {
			all = append(all, i)
		}
	}
	return all
}

func without(all []int, i int) []int {
	return slices.DeleteFunc(slices.Clone(all), func(j int) bool { return j == i })
}

// foreign are the masters that answer and vote for proxies with other settings. until is when
// those proxies no longer count on a master that was moved from them. They may have had another
// majority: their locks must have expired before a quarantine ends.
func (e *view) foreign() (all []int, until time.Time) {
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

// cause is why a master has no record of its present run, if this proxy knows.
func (m *master) cause() string {
	switch {
	case m.rec.runID != "" && !m.current(), m.last.runID != "" && m.last.runID != m.o.ServerInfo.RunID:
		return causeRestarted
	case m.last.runID != "":
		return causeFlushed
	}
	return causeNew
}
