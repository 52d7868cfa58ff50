package admission

import "time"

// startGrace is how long masters that are all new wait for one that does not answer, or cannot be
// written, before they are put in quarantine.
const startGrace = 5 * time.Second

// evaluateNew is for a master with nothing on it, or with the sign that it was so while all were.
//
// A new deployment is opened in two steps: a sign on each master, then, when all carry one at one
// moment, the records. A master that lost its record in between is not mistaken for one that never
// had one.
func (e *evaluation) evaluateNew(i int) {
	g, m := e.g, &e.g.masters[i]
	if a := e.newest(i); m.isNew() && g.o.Mode == On && a.id == g.idFor(i, m.rec.id) && !e.superseded(i, a) {
		e.open(i, a) // another proxy has opened the deployment
		return
	}
	if g.o.Mode != On || g.seenBefore {
		e.quarantine(i, m.cause(), record{})
		return
	}
	all, marked, seen := g.bootstrap()
	grace := min(startGrace, g.o.MaxTTL)
	until := g.firstSeen.Add(grace)
	switch {
	case !all:
		g.allNew = time.Time{}
	case g.allNew.IsZero():
		g.allNew = e.now
	}
	if all {
		until = g.allNew.Add(grace)
	}
	switch {
	case all && marked && e.probeBefore(seen):
		// Each was marked when it was observed. But the first may have voted by the time the last
		// was marked. Marks that still stand after the last was seen have all stood at one time.
	case all && marked:
		e.open(i, admission{1, g.idFor(i, m.rec.id)})
	case !e.now.Before(until):
		e.quarantine(i, causeNew, record{})
	case all && !m.isNew():
		e.again(until)
		sign := record{kind: recordNew, runID: m.o.Facts.RunID, nonce: parseNonce(g.o.Nonce())}
		e.change(i, Change{Empty: true, To: sign.String(), Settings: keep, Known: keep, Durable: keep})
	case all: // the others are being marked
		e.again(until)
	default:
		e.again(until)
		e.wait(i, errWaitsForAll, true)
	}
}

// bootstrap reports whether all masters answer and are blank or marked as new, and whether all are
// marked; seen is since when all these marks are known.
func (g *Guard) bootstrap() (all, marked bool, seen time.Time) {
	marked = true
	for i := range g.masters {
		m := &g.masters[i]
		switch {
		case !m.up || !m.isNew() && !m.blank():
			return false, false, seen
		case m.blank():
			marked = false
		case m.mark.since.After(seen):
			seen = m.mark.since
		}
	}
	return true, marked, seen
}

// probeBefore makes the lanes probe the masters that were last observed before then, and reports
// whether there are any.
func (e *evaluation) probeBefore(then time.Time) (any bool) {
	for i := range e.g.masters {
		if e.g.masters[i].o.Sent.Before(then) {
			any = true
			e.do(i, Action{Kind: ActProbe})
		}
	}
	return any
}

// open admits a master of a new deployment. It tells it of the admissions of all, which follow
// from their signs.
func (e *evaluation) open(i int, a admission) {
	g, known := e.g, e.known()
	for j := range g.masters {
		if o := &g.masters[j]; o.up && o.isNew() {
			known[j] = admission{a.number, g.idFor(j, o.rec.id)}
		}
	}
	c := g.admit(i, a, known)
	c.Floor = g.floor(e.now)
	c.warning = "all masters are new: taken for a new deployment, admitted at once"
	e.change(i, c)
}
