package quorum

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
)

// startGrace is how long masters that are all new wait for one that has not answered yet, before they are put in
// quarantine.
const startGrace = 5 * time.Second

// guard decides which masters vote. It judges what the lanes find, one master at a time, and changes records by compare-and-set,
// so any number of proxies may do the same to the same masters at the same time.
type guard struct {
	q           *Quorum
	mode        Guard
	ours        settings
	fingerprint string
	start       time.Time
	met         time.Time     // when the first master was looked at
	wake        chan struct{} // holds a value when there is something to judge
	log         *zap.Logger

	mu        sync.Mutex // taken before the mu of a lane
	said      string     // what the log said last of a change
	inhabited bool       // a record, a mark or counters have been seen on some master: the deployment is not new
	masters   []known
}

// known is what the guard has learned of one master.
type known struct {
	up     bool // connected, and looked at on this connection
	seen   bool // view is set
	view   view
	record record // of view

	changing bool // a change of its record is on its way
	stale    bool // ... or has been answered, and nobody has looked since

	mark   markSeen
	blamed string // nonce of the mark that cannot be ended before an operator helps, as the log has been told
	voted  votedAs
}

// markSeen is a mark, of a quarantine or of an opening, and since when this proxy knows it to stand.
type markSeen struct {
	runID, nonce string
	since        time.Time
}

// votedAs is how this proxy last saw the master vote.
type votedAs struct {
	record, runID string
	durable       bool // it had the durable mark, and nothing spoke against it
	at            time.Time
}

func newGuard(q *Quorum) *guard {
	g := &guard{q: q, mode: q.opts.Guard, ours: settingsOf(&q.opts), start: time.Now(), wake: make(chan struct{}, 1), log: q.log,
		masters: make([]known, len(q.opts.Masters))}
	g.fingerprint = g.ours.fingerprint()
	return g
}

// margin is added to a wait, for clocks that run at different rates and for Redis' expiry.
func margin(wait time.Duration) time.Duration { return drift(wait) + 50*time.Millisecond }

// current reports whether the record speaks of the run that the master is in.
func (m *known) current() bool { return m.record.runID == m.view.facts.runID }

// votes reports whether a master has been admitted in its present run, by whichever proxies.
func (m *known) votes() bool { return m.record.kind == recordVotes && m.current() }

// blank reports whether there is nothing at all on the master.
func (m *known) blank() bool { return m.record.kind == recordNone && m.view.fields == 0 }

func (g *guard) poke() {
	select {
	case g.wake <- struct{}{}:
	default:
	}
}

// looked takes what a lane found. A master that votes, the case of nearly every look, is settled here.
func (g *guard) looked(lane int, v view) {
	g.mu.Lock()
	defer g.mu.Unlock()
	m := &g.masters[lane]
	if g.met.IsZero() {
		g.met = v.at
	}
	news := !m.up || m.view.record != v.record // what follows for the others may change too
	m.up, m.seen, m.view, m.record = true, true, v, parseRecord(v.record)
	if !m.changing {
		m.stale = false
	}
	if !m.blank() && (m.record.kind != recordOpening || !m.current()) {
		g.inhabited = true
	}
	if (m.record.kind == recordMark || m.record.kind == recordOpening) && m.current() {
		if m.mark.runID != m.record.runID || m.mark.nonce != m.record.nonce {
			m.mark = markSeen{m.record.runID, m.record.nonce, v.at}
		}
		if v.stepped || v.evicted || v.demoted {
			g.q.lanes[lane].forgive()
		}
	} else {
		m.mark = markSeen{}
	}
	s := g.judge(lane, v.at)
	if s.kind == ruledVote || s.kind == ruledChange && s.change.note() {
		m.voted = votedAs{v.record, v.facts.runID, v.durable == v.facts.runID && !v.facts.perishable(), v.at}
	}
	if s.kind == ruledVote {
		g.perform(s)
	} else {
		news = true
	}
	if news {
		g.poke()
	}
}

// lost is told that the connection of a lane has ended.
func (g *guard) lost(lane int) {
	g.mu.Lock()
	g.masters[lane].up = false
	g.mu.Unlock()
	g.poke()
}

// run judges whenever there is something new, until ctx ends.
func (g *guard) run(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		next := g.round(ctx)
		if next.IsZero() {
			timer.Stop()
		} else {
			timer.Reset(time.Until(next))
		}
		select {
		case <-ctx.Done():
			return
		case <-g.wake:
		case <-timer.C:
			select {
			case <-g.wake: // one round is enough for both
			default:
			}
		}
	}
}

// round judges every master, and returns when to do so again even if nothing is heard; zero for never.
func (g *guard) round(ctx context.Context) (next time.Time) {
	now := time.Now()
	var due []int
	g.mu.Lock()
	for i := range g.masters {
		s := g.judge(i, now)
		if s.kind == ruledDue {
			due = append(due, i)
		}
		g.perform(s)
		if !s.again.IsZero() && (next.IsZero() || s.again.Before(next)) {
			next = s.again
		}
	}
	g.mu.Unlock()
	if len(due) > 0 {
		g.endQuarantine(ctx, due)
	}
	return next
}

type rulingKind uint8

const (
	ruledNothing rulingKind = iota
	ruledVote               // it votes under view.record
	ruledHold               // it does not, for a reason
	ruledChange             // its record has to be changed
	ruledDue                // its quarantine is over: counters are needed
	ruledLook               // nobody knows before all have been looked at once more
)

// ruling is what follows from looking at one master.
type ruling struct {
	kind   rulingKind
	lane   int
	conn   *laneConn
	record string // ruledVote
	state  State  // ruledHold
	reason error  // ruledHold
	brief  bool   // ruledHold: not worth a line in the log, and not the last word for those who start
	change change // ruledChange
	again  time.Time
}

// change is one call of admit.lua.
type change struct {
	from     string // the record that must stand there
	empty    bool   // nothing else may be in the hash
	to       record
	settings string // this and the next two: "-" leaves the field, "" deletes it
	born     string
	durable  string
	floor    uint64 // 0: none
	counters string
	says     string // what the log says of it; "": nothing
}

// perform does what follows. The guard's mu is held from judging on, so that no ruling is overtaken by one that knows more.
func (g *guard) perform(s ruling) {
	l := g.q.lanes[s.lane]
	switch s.kind {
	case ruledVote:
		l.admit(s.conn, s.record)
	case ruledLook:
		for _, l := range g.q.lanes {
			l.look()
		}
	case ruledHold:
		l.hold(s.conn, s.state, s.reason, s.brief)
	case ruledChange:
		switch to := &s.change.to; {
		case to.kind == recordMark:
			now := time.Now()
			l.hold(s.conn, StateQuarantined, &quarantine{cause: to.cause, since: now, until: now.Add(to.wait + margin(to.wait))}, true)
		case s.change.note():
			l.admit(s.conn, s.change.from)
		}
		g.change(s)
	}
}

// grace is how long new masters wait for those that have not answered yet.
func (g *guard) grace() time.Duration { return min(startGrace, g.q.opts.MaxTTL) }

// fresh reports whether the deployment may be new: no master was ever seen with anything on it.
func (g *guard) fresh() bool { return g.mode == GuardOn && !g.inhabited }

// opening reports whether all masters answer and are blank or marked as new, and whether all are marked; nonces are those.
// seen is since when all these marks are known.
func (g *guard) opening() (all, marked bool, nonces []string, seen time.Time) {
	marked = true
	for i := range g.masters {
		m := &g.masters[i]
		switch {
		case !m.up:
			return false, false, nil, seen
		case m.record.kind == recordOpening && m.current():
			nonces = append(nonces, m.record.nonce)
			if m.mark.since.After(seen) {
				seen = m.mark.since
			}
		case m.blank():
			marked = false
		default:
			return false, false, nil, seen
		}
	}
	return true, marked, nonces, seen
}

// lookedSince reports whether every master has been looked at since then.
func (g *guard) lookedSince(then time.Time) bool {
	return !slices.ContainsFunc(g.masters, func(m known) bool { return m.view.sent.Before(then) })
}

// bornWith returns the list of nonces of the opening that the master with nonce was part of, if another has been admitted by it.
func (g *guard) bornWith(nonce string) (born string, ok bool) {
	for i := range g.masters {
		m := &g.masters[i]
		if m.up && m.votes() && m.record.fingerprint == g.fingerprint && slices.Contains(strings.Split(m.view.born, ","), nonce) {
			return m.view.born, true
		}
	}
	return "", false
}

// foreign reports whether some master that answers votes for proxies with other settings, or for whom it did may still count on
// it, as it has not been moved for long enough; until is when the last of those has, if that is all. Those proxies may have had another
// majority: what they granted must have run out before any master is admitted.
func (g *guard) foreign(now time.Time) (yes bool, until time.Time) {
	for i := range g.masters {
		m := &g.masters[i]
		switch {
		case !m.up:
		case (m.votes() || m.record.kind == recordOff) && m.record.fingerprint != g.fingerprint:
			return true, time.Time{}
		case m.record.kind == recordMark && m.current() && m.record.fingerprint != "":
			if end := g.markEnds(m); now.Before(end) {
				yes = true
				if end.After(until) {
					until = end
				}
			}
		}
	}
	return yes, until
}

// markEnds is when the mark of m has stood for long enough.
func (g *guard) markEnds(m *known) time.Time {
	wait := max(m.record.wait, g.q.opts.MaxTTL)
	return m.mark.since.Add(wait + margin(wait))
}
