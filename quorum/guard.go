package quorum

import (
	"sync"
	"time"

	"lockproxy/quorum/internal/admission"
	"lockproxy/quorum/internal/clock"
	"lockproxy/quorum/internal/master"
	"lockproxy/quorum/internal/wire"
)

// guard applies what package admission decides: it feeds observations to it and carries out its
// actions through the lanes. No goroutine waits here: lanes and one deadline call it.
type guard struct {
	q *Quorum

	mu     sync.Mutex // taken before the mutex of a lane; held from deciding to carrying out
	g      *admission.Guard
	next   deadline      // when to evaluate again
	asleep time.Duration // clock.Suspended as last read
	said   string        // what the log last said of a change
	then   []func()      // to be called without mu: what could not be sent has ended
}

func newGuard(q *Quorum) *guard {
	o := &q.opts
	opts := admission.Options{
		KeyPrefix: o.KeyPrefix, MaxTTL: o.MaxTTL, Fencing: o.Fencing, Mode: o.Guard, AllowEviction: o.AllowEviction,
		Nonce: o.Dice.Nonce, Floor: q.floor,
	}
	for i := range o.Masters {
		opts.IDs = append(opts.IDs, o.Masters[i].IDOf())
		opts.Names = append(opts.Names, o.Masters[i].NameOf())
	}
	g := &guard{q: q, g: admission.New(opts), asleep: clock.Suspended()}
	g.next.expire = func() { g.update(func() {}) }
	return g
}

// update changes what the guard knows and carries out what follows.
func (g *guard) update(change func()) {
	g.mu.Lock()
	asleep := clock.Suspended()
	if d := asleep - g.asleep; d >= time.Millisecond {
		g.g.Slept(d)
		g.asleep = asleep
	}
	change()
	actions, next := g.g.Evaluate(time.Now())
	g.applyLocked(actions)
	if next.IsZero() {
		g.q.deadlines.cancel(&g.next)
	} else {
		g.q.deadlines.set(&g.next, next)
	}
	then := g.then
	g.then = nil
	g.mu.Unlock()
	for _, f := range then {
		f()
	}
}

// applyLocked carries out actions.
func (g *guard) applyLocked(actions []admission.Action) {
	for i := range actions {
		g.applyOneLocked(&actions[i])
	}
}

func (g *guard) applyOneLocked(a *admission.Action) {
	l := g.q.lanes[a.Master]
	switch a.Kind {
	case admission.ActVote:
		l.Admit(a.Conn, a.Record, a.Until)
	case admission.ActExclude:
		l.Exclude(a.Conn, a.State, a.Reason, a.Brief)
	case admission.ActChange:
		g.sendLocked(l, &wire.Admit, func(r *wire.Reply, err error) { g.changed(l, a, r, err) }, a.Change.Args()...)
	case admission.ActLearn:
		count := ""
		if a.Count {
			count = "1"
		}
		g.sendLocked(l, &wire.Learn, func(r *wire.Reply, err error) {
			said := learned(r, err)
			g.update(func() { g.g.Learned(a, said) })
		}, a.Known, a.Record, count)
	case admission.ActProbe:
		l.Probe()
	case admission.ActForgive:
		l.Forgive()
	case admission.ActAlarm:
		g.q.log.Error(a.Alarm)
	}
}

// sendLocked runs a script about the state of a master. done is called later, without mu.
func (g *guard) sendLocked(l *master.Lane, s *wire.Script, done func(*wire.Reply, error), args ...string) {
	if err := l.Send(s.Eval(g.q.enc.StateKey, args...), done); err != nil {
		g.then = append(g.then, func() { done(nil, err) })
	}
}

// changed is told how the change of a record ended.
func (g *guard) changed(l *master.Lane, a *admission.Action, r *wire.Reply, err error) {
	g.update(func() {
		actions, warning := g.g.Changed(a, err == nil && r.Is(1), err)
		g.applyLocked(actions)
		if warning != "" && warning != g.said { // once for several masters in a row
			g.q.log.Warn(warning)
		}
		g.said = warning
	})
	if err == nil {
		l.Probe()
	}
}

// learned reads the answer to the script learn. A master that is full answers an error for the
// first part and still returns its largest counter.
func learned(r *wire.Reply, err error) (said admission.Learned) {
	switch {
	case err != nil:
		said.Err = err
	case len(r.Elems) != 2:
		said.Err, said.Refused = master.Answered(r), r.IsError() && r.Code() != wire.CodeNotAdmitted
	default:
		known, top := &r.Elems[0], &r.Elems[1]
		if said.Known = known.Text; known.IsError() {
			said.Err, said.Refused = master.Answered(known), true
		}
		said.Top, said.Counted = uint64(max(top.Int, 0)), top.Kind == ':'
	}
	return said
}
