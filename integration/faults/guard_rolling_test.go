package faults

import (
	"strings"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// Masters that go and come back in turn, and others in their place.

// TestGuardRollingRestart: clients are at work while all masters are restarted empty one after the
// other, waiting for each to vote again or not, and a proxy is started in the middle of it.
// Nothing is granted twice.
func TestGuardRollingRestart(t *testing.T) {
	t.Parallel()
	for name, waits := range map[string]bool{"one at a time": true, "all at once": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const maxTTL = 1500 * time.Millisecond
			l := lab.StartGuarded(t, maxTTL, lab.Config{Masters: 3, Proxies: 2})
			desk := lab.Dial(t, l.Proxies[0].Addr)
			lab.WaitAllVote(t, l, desk)
			end := startClients(t, l, stormPlan{clients: 12, keys: 8, minTTL: 500 * time.Millisecond, maxTTL: maxTTL}, lab.SeedOf(t, uint64(time.Now().UnixNano())))
			for range 2 {
				for i, s := range l.Masters {
					lab.Pass(t, 300*time.Millisecond)
					s.RestartEmpty(t)
					if i == 1 {
						l.Proxies[1].Restart(t)
					}
					if waits {
						lab.WaitFor(t, "in quarantine", lab.Patience, func() bool { return lab.ReasonOf(desk, i) != "" })
						lab.WaitAllVote(t, l, desk)
					}
				}
				lab.WaitAllVote(t, l, desk)
			}
			sum := end()
			if t.Log(sum); sum.Grants < 20 || waits && sum.Grants < 60 {
				t.Error("so few grants show little")
			}
		})
	}
}

// TestGuardWipedWhileUsed: clients are at work while majorities of the masters lose their memory
// again and again.
func TestGuardWipedWhileUsed(t *testing.T) {
	t.Parallel()
	const maxTTL = time.Second
	l := lab.StartGuarded(t, maxTTL, lab.Config{Masters: 5, Proxies: 2})
	desk := lab.Dial(t, l.Proxies[0].Addr)
	lab.WaitAllVote(t, l, desk)
	end := startClients(t, l, stormPlan{clients: 12, keys: 8, minTTL: 300 * time.Millisecond, maxTTL: maxTTL}, lab.SeedOf(t, uint64(time.Now().UnixNano())))
	for _, n := range []int{3, 4, 5} {
		for _, lose := range []func(*lab.Redis){
			func(s *lab.Redis) { s.Must(t, "FLUSHALL") },
			func(s *lab.Redis) { s.RestartEmpty(t) },
		} {
			lab.Pass(t, 400*time.Millisecond)
			for _, s := range l.Masters[:n] {
				lose(s)
			}
			lab.WaitFor(t, "in quarantine", lab.Patience, func() bool { return lab.ReasonOf(desk, n-1) != "" })
			lab.WaitAllVote(t, l, desk)
		}
	}
	sum := end()
	if t.Log(sum); sum.Grants < 60 {
		t.Error("so few grants show little")
	}
}

// TestGuardReplica: a replica is not asked for votes; one that was promoted and put at the
// master's address is not taken for it, though it carries all its keys, the record included.
func TestGuardReplica(t *testing.T) {
	t.Parallel()
	const maxTTL = 2 * time.Second
	l := lab.StartGuarded(t, maxTTL, lab.Config{Relays: true})
	host := lab.Dial(t, l.Proxies[0].Addr)
	lab.WaitAllVote(t, l, host)
	var replicas []*lab.Redis
	for _, s := range l.Masters[:2] {
		r := lab.StartRedis(t)
		r.ReplicaOf(t, s)
		replicas = append(replicas, r)
	}
	lab.WaitAllVote(t, l, host)
	for i, r := range replicas { // a replica behind the address
		l.Link(0, i).Switch(r.Addr)
	}
	lab.WaitStates(t, host, lab.Patience, "refused", "refused", "voting")
	if reason := lab.ReasonOf(host, 0); !strings.Contains(reason, "replica") {
		t.Errorf("reason %q, want it to name a replica", reason)
	}
	for i, s := range l.Masters[:2] {
		l.Link(0, i).Switch(s.Addr)
	}
	lab.WaitAllVote(t, l, host)

	lab.LockSoon(t, host, "job", "2s")
	lab.WantHolders(t, l.Masters, "job", 3)
	start := time.Now()
	for i, r := range replicas { // behind, or in step: nobody knows
		r.Must(t, "REPLICAOF", "NO", "ONE")
		l.Link(0, i).Switch(r.Addr)
	}
	lab.WaitStates(t, host, lab.Patience, "quarantined", "quarantined", "voting")
	wantRefused(t, host, "other", start, maxTTL)
	wantRefused(t, host, "job", start, maxTTL)
}
