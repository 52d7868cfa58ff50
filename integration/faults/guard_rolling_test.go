package faults

import (
	"strings"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// Masters restart in turn, or replicas take their place.

// TestExclusionDuringRollingRestart: clients work while all masters restart empty one after the
// other, either once the one before votes again, or without a wait. A proxy restarts in the
// middle. No lock is granted twice.
func TestExclusionDuringRollingRestart(t *testing.T) {
	t.Parallel()
	for name, waits := range map[string]bool{"one at a time": true, "all at once": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			maxTTL := lab.Long(time.Second, 1500*time.Millisecond)
			l := lab.StartGuarded(t, maxTTL, lab.Config{Masters: 3, Proxies: 2})
			desk := lab.Dial(t, l.Proxies[0].Addr)
			lab.WaitAllVote(t, l, desk)
			end := startClients(t, l, stormPlan{clients: lab.Long(6, 12), keys: lab.Long(4, 8),
				minTTL: 500 * time.Millisecond, maxTTL: maxTTL},
				lab.SeedOf(t, uint64(time.Now().UnixNano())))
			for range lab.Long(1, 2) {
				restartInTurn(t, l, desk, waits)
				lab.WaitAllVote(t, l, desk)
			}
			sum := end()
			if t.Log(sum); sum.Grants < 20 || waits && sum.Grants < 60 {
				t.Errorf("got %d grants, want at least 20, or 60 with waits, since few show little", sum.Grants)
			}
		})
	}
}

// restartInTurn restarts all masters empty, and one of two proxies in the middle.
func restartInTurn(t *testing.T, l *lab.Lab, desk *lab.Client, waits bool) {
	t.Helper()
	for i, s := range l.Masters {
		lab.Pass(t, 300*time.Millisecond)
		s.RestartEmpty(t)
		if i == 1 {
			l.Proxies[1].Restart(t)
		}
		if waits {
			waitReadmitted(t, l, desk, s)
		}
	}
}

// waitReadmitted waits until masters that have lost their memory vote again. Admission writes
// their record anew, so this needs no look at the quarantine, which may be short.
func waitReadmitted(t testing.TB, l *lab.Lab, desk *lab.Client, masters ...*lab.Redis) {
	t.Helper()
	for _, s := range masters {
		lab.WaitFor(t, "the admission of "+s.Addr, lab.Patience, func() bool { return admitted(t, s) })
	}
	lab.WaitAllVote(t, l, desk)
}

// admitted reports whether a master's record says that it votes.
func admitted(t testing.TB, s *lab.Redis) bool {
	t.Helper()
	return strings.HasPrefix(lab.Scalar(s.Do(t, "HGET", stateHash, "record")), "A ")
}

// TestExclusionWhileMajoritiesForget: clients work while majorities of the masters lose their
// memory again and again. No lock is granted twice.
func TestExclusionWhileMajoritiesForget(t *testing.T) {
	t.Parallel()
	const maxTTL = time.Second
	l := lab.StartGuarded(t, maxTTL, lab.Config{Masters: lab.Long(3, 5), Proxies: 2})
	desk := lab.Dial(t, l.Proxies[0].Addr)
	lab.WaitAllVote(t, l, desk)
	end := startClients(t, l, stormPlan{clients: 12, keys: 8, minTTL: 300 * time.Millisecond, maxTTL: maxTTL},
		lab.SeedOf(t, uint64(time.Now().UnixNano())))
	for _, n := range lab.Long([]int{2, 3}, []int{3, 4, 5}) {
		for i, lose := range []func(*lab.Redis){
			func(s *lab.Redis) { s.Must(t, "FLUSHALL") },
			func(s *lab.Redis) { s.RestartEmpty(t) },
		} {
			if i == n%2 && !lab.IsLong() { // two restart, or all lose their keys
				continue
			}
			lab.Pass(t, time.Second)
			for _, s := range l.Masters[:n] {
				lose(s)
			}
			waitReadmitted(t, l, desk, l.Masters[:n]...)
		}
	}
	sum := end()
	if t.Log(sum); sum.Grants < 60 {
		t.Errorf("got %d grants, want at least 60, since few show little", sum.Grants)
	}
}

// TestReplicaIsNoMaster: a replica has no vote. A promoted replica at the master's address does
// not pass for the master, although it has all keys of the master and its record.
func TestReplicaIsNoMaster(t *testing.T) {
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
	for i, r := range replicas { // the address leads to a replica
		l.Link(0, i).Switch(r.Addr)
	}
	lab.WaitStates(t, host, lab.Patience, "refused", "refused", "voting")
	if reason := lab.ReasonOf(host, 0); !strings.Contains(reason, "replica") {
		t.Errorf("got reason %q, want a replica in it", reason)
	}
	for i, s := range l.Masters[:2] {
		l.Link(0, i).Switch(s.Addr)
	}
	lab.WaitAllVote(t, l, host)

	lab.LockSoon(t, host, "job", "2s")
	lab.WantHolders(t, l.Masters, "job", 3)
	start := time.Now()
	for i, r := range replicas { // no proxy can know whether they lack writes
		r.Must(t, "REPLICAOF", "NO", "ONE")
		l.Link(0, i).Switch(r.Addr)
	}
	waitOut(t, host, start, 2)
	wantRefused(t, host, "other", start, maxTTL)
	wantRefused(t, host, "job", start, maxTTL)
}
