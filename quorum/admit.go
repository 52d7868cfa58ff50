package quorum

import (
	"context"
	"errors"
	"slices"
	"time"

	"lockproxy/quorum/internal/master"
	"lockproxy/quorum/internal/wire"
)

const (
	maxAdmitTries = 5               // when other proxies change the record at the same time
	admitTime     = 2 * time.Second // for the master to answer
)

// Admit is the operator's word that a master may join this deployment: name is its
// MasterOptions.Name, or its address. If the master carries the record of proxies with other
// settings, Admit gives it ours, and no proxy counts its vote for the larger of both MaxTTL. If it
// is in quarantine already, it is admitted at the end of that even without masters that cannot be
// reached. Admit does not change a master that votes.
//
// Errors: ErrNoSuchMaster; a MasterError that says why the master cannot be moved;
// context.Cause(ctx). Safe for concurrent use.
func (q *Quorum) Admit(ctx context.Context, name string) error {
	named := func(l *master.Lane) bool { return l.Name() == name || l.Options().Addr == name }
	i := slices.IndexFunc(q.fleet.lanes, named)
	if i < 0 {
		return ErrNoSuchMaster
	}
	q.calls.enter()
	defer q.calls.leave()
	limited, cancel := context.WithTimeout(ctx, admitTime)
	defer cancel()
	err := q.members.admit(limited, i)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return MasterError{Index: i, Name: q.fleet.lanes[i].Name(), Err: err}
	}
	return nil
}

var errAdmitRace = errors.New("is being changed by another proxy, try again")

// admit gives the master of lane i the record of this deployment, unless it votes already.
func (m *membership) admit(ctx context.Context, i int) error {
	l := m.fleet.lanes[i]
	for range maxAdmitTries {
		r, err := l.Call(ctx, wire.Probe.Eval(m.fleet.enc.StateKey))
		if err != nil {
			return err
		}
		said, ok := wire.ParseProbe(&r)
		if !ok {
			return master.Answered(&r)
		}
		m.mu.Lock()
		c, change, err := m.rules.Adopt(i, said, time.Now())
		m.mu.Unlock()
		if err != nil || !change {
			return err
		}
		if r, err = l.Call(ctx, wire.Admit.Eval(m.fleet.enc.StateKey, c.Args()...)); err != nil {
			return err
		}
		if r.Is(1) {
			l.Probe()
			return nil
		}
	}
	return errAdmitRace
}
