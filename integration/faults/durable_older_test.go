package faults

import (
	"fmt"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// Masters write everything to disk before they reply, and come back without their last writes.
// Their record and their configuration do not show the loss. They must not vote before all locks
// that they granted have expired.

// lostTail is a way in which such a master loses its last writes.
type lostTail struct {
	name string
	save func(t testing.TB, s *lab.Redis) (restart func()) // restart brings the state of save back
}

func lostTails() []lostTail {
	return []lostTail{
		{"an older copy of the append-only folder", func(t testing.TB, s *lab.Redis) func() {
			disk := s.SaveDisk(t)
			return func() { s.RestartWithDisk(t, disk) }
		}},
		{"redis-check-aof --fix", func(t testing.TB, s *lab.Redis) func() {
			size := s.AOFSize(t)
			return func() { s.RestartRepaired(t, size) }
		}},
		{"an older dump, then CONFIG SET appendonly yes", func(t testing.TB, s *lab.Redis) func() {
			dump := s.SaveRDB(t)
			return func() { s.RestartWithRDBThenAOF(t, dump) }
		}},
	}
}

// witness is the proxy that clients ask for the lock after the loss.
type witness struct {
	name    string
	granted bool // it granted the lock; another proxy knows of the lost writes by probes only
	fresh   bool // it starts after the loss
}

// TestDurableMastersThatLostAWriteWait: a client holds a lock, and two of three durable masters
// come back without it. No other client gets it before it expires, and the next fence is greater.
func TestDurableMastersThatLostAWriteWait(t *testing.T) {
	t.Parallel()
	for i, tail := range lostTails() {
		for j, w := range []witness{
			{"the proxy that granted", true, false},
			{"another proxy", false, false},
			{"a new proxy", false, true},
		} {
			if i != j && !lab.IsLong() { // each loss and each witness once
				continue
			}
			t.Run(tail.name+", "+w.name, func(t *testing.T) {
				t.Parallel()
				durableOlder(t, tail, w)
			})
		}
	}
}

func durableOlder(t *testing.T, tail lostTail, w witness) {
	const maxTTL = 6 * time.Second
	proxies := 2
	if w.granted {
		proxies = 1
	}
	l := lab.StartGuarded(t, maxTTL, lab.Config{MasterArgs: lab.AOFAlways(), Relays: true, Proxies: proxies})
	one, host := lab.Dial(t, l.Proxies[0].Addr), lab.Dial(t, l.Proxies[proxies-1].Addr)
	lab.WaitAllVote(t, l, one)
	lab.WaitAllVote(t, l, host)
	waitProbed(t, l)
	var restarts []func()
	for _, s := range l.Masters[:2] {
		restarts = append(restarts, tail.save(t, s))
	}
	for range 5 { // the older counters are lower
		lab.UnlockSurely(t, one, "job", lab.LockSoon(t, one, "job"))
	}
	token, until := hold(one, "job", maxTTL)
	if !w.granted {
		waitProbed(t, l)
		l.Proxies[0].Kill()
	}
	if w.fresh {
		l.Proxies[1].Kill()
	}
	for i, restart := range restarts { // no proxy connects before both have restarted
		for p := range l.Proxies {
			l.Link(p, i).Isolate()
		}
		restart()
	}
	l.Heal(t)
	if w.fresh {
		l.Proxies[1].Restart(t)
		host = lab.Dial(t, l.Proxies[1].Addr)
	}
	wantNextHolder(t, host, "job", token, until, maxTTL+quarantineMargin)
	lab.WaitAllVote(t, l, host)
}

// quarantineMargin is how much longer than max-ttl a quarantine may last.
const quarantineMargin = 5 * time.Second

// waitProbed waits until each master has answered three more probes of each proxy, one a second.
// No client may lock meanwhile.
func waitProbed(t testing.TB, l *lab.Lab) {
	t.Helper()
	scripts := func(s *lab.Redis) int { return lab.CommandCount(t, s, "eval") + lab.CommandCount(t, s, "evalsha") }
	before := make([]int, len(l.Masters))
	for i, s := range l.Masters {
		before[i] = scripts(s)
	}
	lab.Pass(t, 2*time.Second) // a probe may need more than one script
	for i, s := range l.Masters {
		lab.WaitFor(t, fmt.Sprint("probes of master ", i+1), lab.Patience,
			func() bool { return scripts(s) >= before[i]+3*len(l.Proxies) })
	}
}
