package quorum

import (
	"sync"
	"time"

	"lockproxy/quorum/internal/admission"
	"lockproxy/quorum/internal/clock"
	"lockproxy/quorum/internal/master"
	"lockproxy/quorum/internal/wire"
)

// membership decides which masters vote. It passes observations to package admission, and carries
// out its actions through the lanes. It has no goroutine: lanes, Admit and one deadline call it.
type membership struct {
	fleet *fleet

	mu     sync.Mutex // taken before the mutex of a lane; held until a decision is carried out
	rules  *admission.Guard
	next   deadline      // when to evaluate again
	asleep time.Duration // clock.Suspended as last read
	warned string        // the last warning about a change
	then   []func()      // called without mu: callbacks of requests that could not be sent
}

func newMembership(f *fleet, floor *admission.Floor) *membership {
	opts := guardOptions(f.opts)
	opts.Floor = floor
	m := &membership{fleet: f, rules: admission.New(opts), asleep: clock.Suspended()}
	m.next.expire = func() { m.update(func() {}) }
	return m
}

// guardOptions are the options of the guard, without a floor.
func guardOptions(o *Options) admission.Options {
	opts := admission.Options{
		KeyPrefix: o.KeyPrefix, MaxTTL: o.MaxTTL, Fencing: o.Fencing, Mode: o.Guard, AllowEviction: o.AllowEviction,
		Nonce: o.Dice.Nonce,
	}
	for i := range o.Masters {
		opts.IDs = append(opts.IDs, o.Masters[i].IDOf())
		opts.Names = append(opts.Names, o.Masters[i].NameOf())
	}
	return opts
}

// update records a change and carries out the actions that follow.
func (m *membership) update(change func()) {
	m.mu.Lock()
	asleep := clock.Suspended()
	if d := asleep - m.asleep; d >= time.Millisecond {
		m.rules.Slept(d)
		m.asleep = asleep
	}
	change()
	actions, next := m.rules.Evaluate(time.Now())
	m.applyLocked(actions)
	if next.IsZero() {
		m.fleet.deadlines.cancel(&m.next)
	} else {
		m.fleet.deadlines.set(&m.next, next)
	}
	then := m.then
	m.then = nil
	m.mu.Unlock()
	for _, f := range then {
		f()
	}
}

// applyLocked carries out actions.
func (m *membership) applyLocked(actions []admission.Action) {
	for i := range actions {
		m.applyOneLocked(&actions[i])
	}
}

func (m *membership) applyOneLocked(a *admission.Action) {
	l := m.fleet.lanes[a.Master]
	switch a.Kind {
	case admission.ActVote:
		l.Admit(a.Conn, a.Record, a.Until)
	case admission.ActExclude:
		l.Exclude(a.Conn, a.State, a.Reason, a.Brief)
	case admission.ActChange:
		m.sendLocked(l, &wire.Admit, func(r *wire.Reply, err error) { m.changed(l, a, r, err) }, a.Change.Args()...)
	case admission.ActLearn:
		count := ""
		if a.Count {
			count = "1"
		}
		m.sendLocked(l, &wire.Learn, func(r *wire.Reply, err error) {
			said := learned(r, err)
			m.update(func() { m.rules.Learned(a, said) })
		}, a.Known, a.Record, count)
	case admission.ActProbe:
		l.Probe()
	case admission.ActForgive:
		l.Forgive()
	case admission.ActAlarm:
		m.fleet.log.Error(a.Alarm)
	}
}

// sendLocked runs a script about the state of a master. done is called later, without mu.
func (m *membership) sendLocked(l *master.Lane, s *wire.Script, done func(*wire.Reply, error), args ...string) {
	if err := l.Send(s.Eval(m.fleet.enc.StateKey, args...), done); err != nil {
		m.then = append(m.then, func() { done(nil, err) })
	}
}

// changed handles the end of a change of a record.
func (m *membership) changed(l *master.Lane, a *admission.Action, r *wire.Reply, err error) {
	m.update(func() {
		actions, warning := m.rules.Changed(a, err == nil && r.Is(1), err)
		m.applyLocked(actions)
		if warning != "" && warning != m.warned { // once for several masters in a row
			m.fleet.log.Warn(warning)
		}
		m.warned = warning
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
