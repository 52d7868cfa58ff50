package quorum

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"lockproxy/goredis"
	"lockproxy/quorum/internal/admission"
	"lockproxy/quorum/internal/master"
	"lockproxy/quorum/internal/notify"
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
// Without force, Admit refuses while proxies with other settings are connected to the master: they
// may use it, and lose its vote.
//
// Errors: ErrNoSuchMaster; a MasterError that says why the master cannot be moved;
// context.Cause(ctx). Safe for concurrent use.
func (q *Quorum) Admit(ctx context.Context, name string, force bool) error {
	named := func(l *master.Lane) bool { return l.Name() == name || l.Options().Addr == name }
	i := slices.IndexFunc(q.fleet.lanes, named)
	if i < 0 {
		return ErrNoSuchMaster
	}
	q.calls.enter()
	defer q.calls.leave()
	limited, cancel := context.WithTimeout(ctx, admitTime)
	defer cancel()
	err := q.members.admit(limited, i, force)
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
func (m *membership) admit(ctx context.Context, i int, force bool) error {
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
		if !force {
			if err := m.unused(ctx, l, said); err != nil {
				return err
			}
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

// mostShown is how many proxies an error names.
const mostShown = 5

// unused returns an error if proxies with other settings are connected to the master of l. said is
// a probe of it.
func (m *membership) unused(ctx context.Context, l *master.Lane, said wire.ProbeReply) error {
	clients, err := clientsOf(ctx, l)
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil {
		if !m.rules.Takes(said) { // it belongs to no others
			return nil
		}
		return fmt.Errorf("belongs to proxies with other settings, and who is connected cannot be seen (CLIENT LIST: %w): "+
			"stop those proxies, and add FORCE", err)
	}
	addrs, differs := m.rules.Others(said, clients)
	if len(addrs) == 0 {
		return nil
	}
	if differs == "" {
		differs = "other settings"
	}
	if n := len(addrs); n > mostShown {
		addrs = append(addrs[:mostShown], fmt.Sprintf("%d more", n-mostShown))
	}
	return fmt.Errorf("is connected to proxies with %s at %s: stop them first, or add FORCE, which ends their locks",
		differs, strings.Join(addrs, ", "))
}

// clientsOf returns the named clients of the master of l. It asks on a connection of its own: the
// answer may be long.
func clientsOf(ctx context.Context, l *master.Lane) (all []admission.ListedClient, err error) {
	c, err := notify.Dial(ctx, l.Options())
	if err != nil {
		return nil, err
	}
	defer c.Close()
	var text string
	err = goredis.Call(func() error {
		text, err = c.ClientList(ctx).Result()
		return err
	})
	if err != nil {
		return nil, notify.Reason(err)
	}
	for line := range strings.Lines(text) {
		var one admission.ListedClient
		for word := range strings.FieldsSeq(line) {
			switch name, value, _ := strings.Cut(word, "="); name {
			case "addr":
				one.Addr = value
			case "name":
				one.Name = value
			}
		}
		if one.Name != "" {
			all = append(all, one)
		}
	}
	return all, nil
}
