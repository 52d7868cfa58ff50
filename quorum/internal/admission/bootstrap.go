package admission

import "time"

// startGrace is how long masters that are all new wait for one that does not answer, or cannot be
// written, before they are put in quarantine.
const startGrace = 5 * time.Second

// evaluateNew is for a master without any state, or with the sign that it was so while all were.
//
// A new deployment is opened in two steps: a sign on each master, then, when all carry one at one
// moment, the records. A master that lost its record in between is not mistaken for one that never
// had one.
func (e *evaluation) evaluateNew(i int) {
	g, m := e.g, &e.g.masters[i]
	if m.isNew() && g.o.Mode == On && e.newest(i).admission == m.rec.admission {
		e.open(i) // another proxy has opened the deployment
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
		// was marked. Marks that are seen again after the last were all there at one time.
	case all && marked:
		e.open(i)
	case !e.now.Before(until):
		e.quarantine(i, causeNew, record{})
	case all && !m.isNew():
		e.again(until)
		sign := record{kind: recordNew, runID: m.o.ServerInfo.RunID, nonce: e.newAdmission(i)}
		e.change(i, RecordUpdate{Empty: true, To: sign.String(), Settings: keep, Known: keep, Durable: keep})
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

// open admits a master of a new deployment, under the number of its sign. It learns the signs of
// all.
func (e *evaluation) open(i int) {
	g, m := e.g, &e.g.masters[i]
	c := e.admission(i, m.rec.nonce)
	known := g.parseKnown(c.Known)
	for j := range g.masters {
		if o := &g.masters[j]; j != i && o.up && o.isNew() {
			known[j] = knowledge{admission: o.rec.admission}
		}
	}
	c.Known = g.knownText(known)
	if g.o.Fencing {
		c.Floor = max(g.clockFloor(e.now), g.o.Floor.Top())
	}
	c.warning = "all masters are new: taken for a new deployment, admitted at once"
	e.change(i, c)
}
