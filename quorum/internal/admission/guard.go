package admission

import (
	"cmp"
	"slices"
	"time"

	"lockproxy/stat"
)

// Options are what a Guard needs to know.
type Options struct {
	IDs           []string // what all proxies call the masters, in the order of the lanes
	Names         []string // what the operator calls them
	KeyPrefix     string
	MaxTTL        time.Duration
	Fencing       bool
	Mode          Mode
	AllowEviction bool
	Nonce         func() string // draws 16 random hex digits
	Floors        *Floors       // shared with whoever issues fences
}

// Guard decides which masters vote. It is not safe for concurrent use: one mutex guards it and the
// carrying out of its actions.
//
// Any number of proxies may have one in front of the same masters: all changes are
// compare-and-set.
type Guard struct {
	o           Options
	settings    settings
	fingerprint string
	place       []int // of each master in the sorted list of ids
	masters     []master

	firstSeen  time.Time // when the first master was observed
	allNew     time.Time // since when all masters answer and are new; zero while they are not
	seenBefore bool      // some master has carried state: the deployment is not new
	counting   bool      // an ActCount is on its way
	counted    time.Time // when the last one ended
	countedFor []int     // for which masters it was
}

// master is what the guard has learned of one master.
type master struct {
	up    bool // connected, and observed on this connection
	seen  bool // ever observed
	o     Observation
	rec   record
	known []admission

	changing bool // a change of its record is on its way
	stale    bool // ... or has been answered, and nobody has observed the master since
	telling  bool // an ActTell is on its way, or has failed since the last observation

	mark    standing
	voted   votedAs
	base    evictions
	alarmed admission // the quarantine that waits for an operator, as the log has been told
}

// standing is a mark, of a quarantine or of a new deployment, and since when this proxy knows that
// it stands. Without an admission it is that of a master without its record, on which no mark has
// been seen yet.
type standing struct {
	runID string
	admission
	since      time.Time
	told       []int     // others that have been told of it, until enough have
	toldAt     time.Time // when the last of these was
	noMajority bool      // while it stood no majority had kept its memory
	floored    bool      // the floors of this proxy have been written below it
}

// votedAs is how this proxy last saw the master vote.
type votedAs struct {
	admission
	runID   string
	durable bool // it had the durable mark, and nothing spoke against it
	at      time.Time
}

// evictions is how many keys a master had evicted when it was admitted.
type evictions struct {
	of admission
	n  int64
}

// New returns a Guard that has observed nothing.
func New(o Options) *Guard {
	g := &Guard{o: o, settings: settingsOf(&o), place: make([]int, len(o.IDs)), masters: make([]master, len(o.IDs))}
	g.fingerprint = g.settings.fingerprint()
	order := make([]int, len(o.IDs))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(o.IDs[a], o.IDs[b]) })
	for at, i := range order {
		g.place[i] = at
		g.masters[i].known = make([]admission, len(o.IDs))
	}
	return g
}

// majority is how many masters make a quorum.
func (g *Guard) majority() int { return len(g.masters)/2 + 1 }

// current reports whether the record speaks of the run that the master is in.
func (m *master) current() bool { return m.rec.runID == m.o.Facts.RunID }

// votes reports whether the master has been admitted in its present run, by whichever proxies.
func (m *master) votes() bool { return m.rec.kind == recordVotes && m.current() }

// marked reports whether the master is in quarantine.
func (m *master) marked() bool { return m.rec.kind == recordMark && m.current() }

// isNew reports whether the master carries the sign that it was blank while all were.
func (m *master) isNew() bool { return m.rec.kind == recordNew && m.current() }

// blank reports whether there is nothing at all on the master.
func (m *master) blank() bool { return m.rec.kind == recordNone && m.o.Fields == 0 }

// Observe takes what a lane found on its master. Evaluate follows.
func (g *Guard) Observe(i int, o Observation) {
	m := &g.masters[i]
	if g.firstSeen.IsZero() {
		g.firstSeen = o.At
	}
	m.up, m.seen, m.o, m.rec, m.known = true, true, o, parseRecord(o.Record), g.parseKnown(o.Known)
	m.stale = m.stale && m.changing
	m.telling = false
	if !m.blank() && !m.isNew() {
		g.seenBefore = true
	}
	switch {
	case !m.marked() && !m.isNew():
		if m.votes() || m.mark.admission != (admission{}) {
			m.mark = standing{}
		}
	case m.mark.runID != m.rec.runID || m.mark.admission != m.rec.admission:
		m.mark = standing{runID: m.rec.runID, admission: m.rec.admission, since: o.At, toldAt: o.At}
	}
	m.countEvictions()
}

// countEvictions compares with the number in the record. A record of the last version has none:
// then with what is found first.
func (m *master) countEvictions() {
	switch {
	case !m.votes():
		m.base = evictions{}
		return
	case m.base.of != m.rec.admission:
		m.base = evictions{m.rec.admission, m.rec.evicted}
		if m.rec.evicted < 0 {
			m.base.n = m.o.Facts.Evicted
		}
	}
	if m.o.Facts.Evicted < m.base.n { // CONFIG RESETSTAT
		m.base.n = 0
	}
}

// Lost is told that the connection of a lane has ended. Evaluate follows.
func (g *Guard) Lost(i int) {
	m := &g.masters[i]
	m.up = false
	if m.mark.admission == (admission{}) {
		m.mark.since = time.Time{} // another proxy may admit the master meanwhile
	}
}

// Evaluate returns what must be done now, and when to evaluate again even if nothing is heard;
// zero for never. It keeps masters out of the vote before it lets others in: what one tells may
// speak against another.
func (g *Guard) Evaluate(now time.Time) (actions []Action, next time.Time) {
	e := &evaluation{g: g, now: now}
	for i := range g.masters {
		e.evaluate(i)
	}
	for i := range g.masters {
		e.tell(i)
	}
	if len(e.due) > 0 && !g.counting {
		e.count()
	}
	return append(e.actions, e.votes...), e.next
}

// evaluation is one call of Evaluate.
type evaluation struct {
	g       *Guard
	now     time.Time
	actions []Action
	votes   []Action
	due     []int // whose quarantine is over
	next    time.Time
}

// again makes the guard evaluate at that time at the latest.
func (e *evaluation) again(at time.Time) {
	if e.next.IsZero() || at.Before(e.next) {
		e.next = at
	}
}

func (e *evaluation) do(i int, a Action) {
	a.Master, a.Conn = i, e.g.masters[i].o.Conn
	if a.Kind == ActVote {
		e.votes = append(e.votes, a)
		return
	}
	e.actions = append(e.actions, a)
}

// refuse is for what only the operator can change.
func (e *evaluation) refuse(i int, reason error) {
	e.do(i, Action{Kind: ActExclude, State: stat.StateRefused, Reason: reason})
}

// wait keeps a master in quarantine.
func (e *evaluation) wait(i int, reason error, brief bool) {
	e.do(i, Action{Kind: ActExclude, State: stat.StateQuarantined, Reason: reason, Brief: brief})
}

// change has the record of a master changed. Until that is answered and the master observed, it is
// left alone.
func (e *evaluation) change(i int, c Change) {
	m := &e.g.masters[i]
	m.changing, m.stale = true, true
	e.do(i, Action{Kind: ActChange, Change: c})
}
