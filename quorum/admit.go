package quorum

import (
	"context"
	"errors"
	"slices"
)

// maxAdmitTries is how often Admit begins anew when another proxy changes the record at the same time.
const maxAdmitTries = 5

// Admit is the operator's word that a master may join this deployment: name is its MasterOptions.Name. Where the master
// carries the record of proxies with other settings it is moved to ours, and nobody votes on it for the larger of both
// MaxTTL. Where it is in quarantine already, it is admitted at the end of that even without the counters of masters that cannot be
// reached. A master that votes is left as it is.
//
// Errors: ErrNoSuchMaster; a MasterError that says why the master cannot be moved; context.Cause(ctx). Safe for concurrent use.
func (q *Quorum) Admit(ctx context.Context, name string) error {
	i := slices.IndexFunc(q.lanes, func(l *lane) bool { return l.names[l.index] == name })
	if i < 0 {
		return ErrNoSuchMaster
	}
	q.enter()
	defer q.leave()
	waiting, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	l := q.lanes[i]
	fail := func(err error) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return MasterError{Index: i, Name: name, Err: err}
	}
	for range maxAdmitTries {
		a, err := l.ask(waiting, command{op: opLook})
		if err != nil {
			return fail(err)
		}
		c, err := q.guard.adoption(i, a.text)
		if err != nil {
			return fail(err)
		}
		if c == nil {
			return nil
		}
		if a, err = l.ask(waiting, command{op: opAdmit, args: c.args()}); err != nil {
			return fail(err)
		}
		if a.n == 1 {
			l.look()
			return nil
		}
	}
	return fail(errors.New("is being changed by another proxy, try again"))
}

// adoption is the change that ADMIT makes of what a look has found; nil where nothing is to be done.
func (g *guard) adoption(lane int, text string) (*change, error) {
	said, ok := parseLook(&reply{kind: '$', text: text})
	if !ok {
		return nil, errUnparsable
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	m := g.masters[lane] // a copy, with what stands there now
	if !m.up {
		return nil, errLooking
	}
	if m.view.facts.mayEvict() && !g.q.opts.AllowEviction {
		return nil, mayEvictError(m.view.facts.policy)
	}
	m.view.lookReply, m.record = said, parseRecord(said.record)
	r := m.record
	switch {
	case g.mode != GuardOff && m.votes() && r.fingerprint == g.fingerprint,
		g.mode == GuardOff && r.kind == recordOff && r.fingerprint == g.fingerprint:
		return nil, nil
	case r.kind == recordMark && m.current() && (r.fingerprint == g.fingerprint || r.fingerprint == "" && g.mode != GuardOff):
		if r.override || g.mode == GuardOff {
			return nil, nil
		}
		r.override = true // with its nonce: the count goes on
		return &change{from: said.record, to: r, settings: "-", born: "", durable: ""}, nil
	}
	c := g.moveTo(ruling{lane: lane}, &m).change
	return &c, nil
}

// moveTo is quarantine for a master that comes from proxies with other settings, or may not have a record of this
// version: none but those with ours may end it. Its counters are kept if it has been serving in its present run.
func (g *guard) moveTo(s ruling, m *known) ruling {
	kept := m.votes() || m.record.kind == recordMark && m.current() && m.record.kept
	s = g.quarantine(s, m, causeMoved, kept)
	s.change.to.fingerprint, s.change.to.override = g.fingerprint, m.record.kind == recordNone
	return s
}
