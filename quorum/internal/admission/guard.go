package admission

import (
	"cmp"
	"slices"
	"time"

	"lockproxy/stat"
)

// Guard decides which masters vote. It is not safe for concurrent use: one mutex guards it and the
// execution of its actions.
//
// Any number of proxies may run one in front of the same masters: all changes are compare-and-set.
type Guard struct {
	o           Options
	settings    settings
	fingerprint string
	place       []int // of each master in the sorted list of ids
	masters     []master

	firstSeen  time.Time // when the first master was observed
	allNew     time.Time // since when all masters answer and are new; zero while they are not
	seenBefore bool      // some master has carried state: the deployment is not new
}

// master is the guard's knowledge of one master.
type master struct {
	up    bool // connected, and observed on this connection
	o     Observation
	met   time.Time // when it was first observed on this connection
	rec   record
	known []knowledge

	changing bool      // a change of its record is under way
	stale    bool      // ... or was answered, and the master has not been observed since
	learning bool      // an ActLearn is under way, or has failed since the last observation
	refused  time.Time // when it last answered an ActLearn with an error; zero after success
	taughtAt time.Time // when the last ActLearn was decided
	count    count

	mark    seenMark
	last    lastVote
	base    evictions
	alarmed admission // the last logged quarantine that waits for an operator
}

// seenMark is this proxy's view of a mark: of a quarantine or of a new deployment.
// Without an admission the master has no record and no mark of it has been seen yet.
type seenMark struct {
	runID string
	admission
	since      time.Time
	learners   []int     // others that have learned of it, until they suffice
	learnedAt  time.Time // when this proxy saw that the last of these had
	few        bool      // at some time since, too few others had their memory to learn of it
	noMajority bool      // at some time since, no majority of masters had its memory
	floored    bool      // this proxy has written its floor below the counters
}

// lastVote is how this proxy last saw the master vote.
type lastVote struct {
	knowledge
	runID string
	at    time.Time
}

// evictions is how many keys a master had evicted when it was admitted.
type evictions struct {
	of admission
	n  int64
}

// New returns a Guard without observations.
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
		g.masters[i].known = make([]knowledge, len(o.IDs))
	}
	return g
}

// majority is how many masters make a quorum.
func (g *Guard) majority() int { return len(g.masters)/2 + 1 }

// current reports whether the record belongs to the run that the master is in.
func (m *master) current() bool { return m.rec.runID == m.o.ServerInfo.RunID }

// votes reports whether the master carries the record of an admission in its present run.
func (m *master) votes() bool { return m.rec.kind == recordVotes && m.current() }

// marked reports whether the master is in quarantine.
func (m *master) marked() bool { return m.rec.kind == recordMark && m.current() }

// isNew reports whether the master carries the sign that it was blank while all were.
func (m *master) isNew() bool { return m.rec.kind == recordNew && m.current() }

// blank reports whether the master has neither a record nor any other field of our state.
func (m *master) blank() bool { return m.rec.kind == recordNone && m.o.Fields == 0 }

// lost reports whether the master is known to have lost its memory: it is marked so, or it was
// found without its record and could not be marked.
func (m *master) lost() bool {
	if m.marked() {
		return !m.rec.kept
	}
	return !m.votes() && m.mark.admission == (admission{}) && !m.mark.since.IsZero()
}

// Observe takes the findings of a lane. Evaluate follows.
func (g *Guard) Observe(i int, o Observation) {
	m := &g.masters[i]
	if g.firstSeen.IsZero() {
		g.firstSeen = o.At
	}
	if !m.up || m.o.Conn != o.Conn {
		m.met = o.At
	}
	m.up, m.o, m.rec, m.known = true, o, parseRecord(o.Record), g.parseKnown(o.Known)
	m.stale = m.stale && m.changing
	m.learning = false
	if !m.blank() && !m.isNew() {
		g.seenBefore = true
	}
	switch {
	case !m.marked() && !m.isNew():
		if m.votes() || m.mark.admission != (admission{}) {
			m.mark = seenMark{}
		}
	case m.mark.runID != m.rec.runID || m.mark.admission != m.rec.admission:
		m.mark = seenMark{runID: m.rec.runID, admission: m.rec.admission, since: o.At, learnedAt: o.At}
	}
	m.countEvictions()
}

// countEvictions compares with the number in the record. Records of the first versions have none:
// then the first number found is the base.
func (m *master) countEvictions() {
	switch {
	case !m.votes():
		m.base = evictions{}
		return
	case m.base.of != m.rec.admission:
		m.base = evictions{m.rec.admission, m.rec.evicted}
		if m.rec.evicted < 0 {
			m.base.n = m.o.ServerInfo.Evicted
		}
	}
	if m.o.ServerInfo.Evicted < m.base.n { // CONFIG RESETSTAT
		m.base.n = 0
	}
}

// Lost notes that the connection of a lane has ended; writes is the number of packets
// that its master last reported. Evaluate follows.
func (g *Guard) Lost(i int, writes uint64) {
	m := &g.masters[i]
	was := m.up
	m.up, m.refused, m.count = false, time.Time{}, count{}
	if was && m.votes() && m.last.admission == m.rec.admission {
		m.last.writes = max(m.last.writes, writes)
	}
	if m.mark.admission == (admission{}) {
		m.mark.since = time.Time{} // another proxy may admit the master meanwhile
	}
}

// Slept notes that this machine was suspended for d, which its monotonic clock does not
// show: all observations are older than they seem.
func (g *Guard) Slept(d time.Duration) {
	for i := range g.masters {
		m := &g.masters[i]
		m.o.Sent, m.last.at = m.o.Sent.Add(-d), m.last.at.Add(-d)
	}
}

// Evaluate returns what must be done now, and when to evaluate again even without news; zero for
// never. It excludes masters before it lets others vote, because evidence for one may speak
// against another.
func (g *Guard) Evaluate(now time.Time) (actions []Action, next time.Time) {
	e := &evaluation{view: g.view(now)}
	for i := range g.masters {
		e.evaluate(i)
	}
	for i := range g.masters {
		e.teach(i)
	}
	return append(e.actions, e.votes...), e.next
}

// view is the guard's knowledge at one time. Its methods change no state.
type view struct {
	g      *Guard
	now    time.Time
	intact []bool // masters that answer and have kept their memory: their known and counters count
	older  []bool // masters whose record is not that of their last admission
}

// evaluation is one call of Evaluate: a view, and the actions that follow from it.
type evaluation struct {
	view
	actions []Action
	votes   []Action
	next    time.Time
}

func (g *Guard) view(now time.Time) view {
	e := view{g: g, now: now, intact: make([]bool, len(g.masters)), older: make([]bool, len(g.masters))}
	for i := range g.masters {
		m := &g.masters[i]
		e.intact[i] = m.up && (m.votes() && m.rec.fingerprint == g.fingerprint ||
			m.marked() && m.rec.kept && (m.rec.fingerprint == "" || m.rec.fingerprint == g.fingerprint) || g.survived(i))
	}
	for i := range g.masters {
		e.older[i] = g.masters[i].up && e.superseded(i)
	}
	return e
}

// again makes the guard evaluate at that time at the latest.
func (e *evaluation) again(at time.Time) {
	if e.next.IsZero() || at.Before(e.next) {
		e.next = at
	}
}

func (e *evaluation) do(i int, a Action) {
	a.Master, a.Conn, a.At = i, e.g.masters[i].o.Conn, e.now
	if a.Kind == ActVote {
		e.votes = append(e.votes, a)
		return
	}
	e.actions = append(e.actions, a)
}

// refuse is for conditions that only the operator can change.
func (e *evaluation) refuse(i int, reason error) {
	e.do(i, Action{Kind: ActExclude, State: stat.StateRefused, Reason: reason})
}

// wait keeps a master out of the vote for now.
func (e *evaluation) wait(i int, reason error, brief bool) {
	e.do(i, Action{Kind: ActExclude, State: stat.StateQuarantined, Reason: reason, Brief: brief})
}

// change has the record of a master changed. The master is left alone until the answer has come
// and the master was observed again.
func (e *evaluation) change(i int, c RecordUpdate) {
	m := &e.g.masters[i]
	m.changing, m.stale = true, true
	e.do(i, Action{Kind: ActChange, Change: c})
}
