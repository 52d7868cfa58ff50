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
	i := slices.IndexFunc(q.lanes, func(l *master.Lane) bool { return l.Name() == name || l.Options().Addr == name })
	if i < 0 {
		return ErrNoSuchMaster
	}
	q.enter()
	defer q.leave()
	limited, cancel := context.WithTimeout(ctx, admitTime)
	defer cancel()
	err := q.admit(limited, i)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return MasterError{Index: i, Name: q.lanes[i].Name(), Err: err}
	}
	return nil
}

var errAdmitRace = errors.New("is being changed by another proxy, try again")

func (q *Quorum) admit(ctx context.Context, i int) error {
	l := q.lanes[i]
	for range maxAdmitTries {
		r, err := l.Call(ctx, wire.Probe.Eval(q.enc.StateKey))
		if err != nil {
			return err
		}
		said, ok := wire.ParseProbe(&r)
		if !ok {
			return master.Answered(&r)
		}
		q.members.mu.Lock()
		c, change, err := q.members.rules.Adopt(i, said, time.Now())
		q.members.mu.Unlock()
		if err != nil || !change {
			return err
		}
		if r, err = l.Call(ctx, wire.Admit.Eval(q.enc.StateKey, c.Args()...)); err != nil {
			return err
		}
		if r.Is(1) {
			l.Probe()
			return nil
		}
	}
	return errAdmitRace
}
