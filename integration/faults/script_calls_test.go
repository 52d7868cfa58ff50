package faults

import (
	"fmt"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// What locks cost the masters: scripts (L8).

// scripts is how many scripts a master has run.
func scripts(t testing.TB, s *lab.Redis) (n int) {
	t.Helper()
	for _, name := range []string{"eval", "evalsha", "eval_ro", "evalsha_ro", "fcall", "fcall_ro"} {
		n += lab.CommandCount(t, s, name)
	}
	return n
}

// load counts the scripts that masters run from now on.
type load struct {
	masters []*lab.Redis
	before  []int
	start   time.Time
}

func startLoad(t testing.TB, masters []*lab.Redis) *load {
	t.Helper()
	l := &load{masters: masters, start: time.Now()}
	for _, s := range masters {
		l.before = append(l.before, scripts(t, s))
	}
	return l
}

// most is the largest number of scripts that one of the masters has run since, without the
// questions that a proxy asks once a second.
func (l *load) most(t testing.TB) (n int) {
	t.Helper()
	questions := int(time.Since(l.start)/time.Second) + 1
	for i, s := range l.masters {
		n = max(n, scripts(t, s)-l.before[i]-questions)
	}
	return n
}

// TestScriptsOfLockAndUnlock: a lock that nobody else wants costs each master two scripts, however
// far they are. Where only one of them is far its answers come late, which may cost one more for
// each.
func TestScriptsOfLockAndUnlock(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		trip    time.Duration // in milliseconds
		far     int           // so many masters
		allowed int           // scripts for LOCK and UNLOCK
	}{{0, 3, 2}, {20, 3, 2}, {60, 3, 2}, {120, 3, 2}, {20, 1, 3}, {120, 1, 3}} {
		t.Run(fmt.Sprintf("round trip %dms to %d", row.trip, row.far), func(t *testing.T) {
			t.Parallel()
			const pairs = 20
			l := lab.Start(t, lab.Config{Relays: true, Flags: []string{"--master-timeout", "2s"}})
			host := lab.Dial(t, l.Proxies[0].Addr)
			lab.WaitAllVote(t, l, host)
			for _, r := range l.Relays[0][:row.far] {
				r.Slow(row.trip * time.Millisecond / 2)
			}
			used := startLoad(t, l.Masters)
			for i := range pairs {
				key := fmt.Sprint("job-", i)
				host.Unlock(key, host.Lock(key, "30s"))
			}
			lab.WantKeysGone(t, l.Masters, lab.Patience)
			lab.Pass(t, 300*time.Millisecond+2*row.trip*time.Millisecond) // for whatever follows
			n := used.most(t)
			t.Logf("%.1f scripts a master for each pair", float64(n)/pairs)
			if n > row.allowed*pairs {
				t.Errorf("%d pairs cost a master %d scripts, want %d each at most", pairs, n, row.allowed)
			}
		})
	}
}

// TestScriptsOfAReturn: a master was away while 60,000 releases came, of which it has 5,000 locks.
// Its return costs the others nothing.
func TestScriptsOfAReturn(t *testing.T) {
	t.Parallel()
	const held, others = 5000, 55_000
	a := startAbsence(t)
	tokens := a.lockEverywhere("held-", held)
	a.pause()
	a.unlock("held-", tokens, ":1\r\n")
	a.unlock("other-", foreignTokens(others), ":0\r\n")
	used := startLoad(t, a.Masters[:2])
	a.resume()
	lab.Pass(t, time.Second) // for whatever follows
	n := used.most(t)
	t.Logf("%d scripts", n)
	if n > 100 {
		t.Errorf("the return of a master to which %d releases were owed cost another %d scripts, want 100 at most", held+others, n)
	}
	a.wantNone("held-", held)
}

// TestScriptsOfTopUps: a master was away while 20,000 locks were taken. They are set there when it
// is back, and each costs the others one question at most.
func TestScriptsOfTopUps(t *testing.T) {
	t.Parallel()
	const locks = 20_000
	a := startAbsence(t)
	a.pause()
	tokens := a.lock("held-", locks)
	used := startLoad(t, a.Masters[:2])
	a.resume()
	if n := lab.Number(t, lab.Scalar(a.Masters[2].Do(t, "DBSIZE"))); n < locks {
		t.Errorf("%d of %d locks stand on the master that was away", n, locks)
	}
	lab.Pass(t, 2500*time.Millisecond) // for whatever follows
	n := used.most(t)
	t.Logf("%d scripts", n)
	if n > locks {
		t.Errorf("%d top-ups cost another master %d scripts, want one each at most", locks, n)
	}
	a.unlock("held-", tokens, ":1\r\n")
	lab.WantKeysGone(t, a.Masters, lab.Patience)
}
