package faults

import (
	"fmt"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// These tests count the scripts that locks cost the masters.

// scripts returns how many scripts a master has run.
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

// most returns the largest number of scripts that one of the masters has run since the start,
// without the probes that a proxy sends once a second.
func (l *load) most(t testing.TB) (n int) {
	t.Helper()
	for i, s := range l.masters {
		n = max(n, scripts(t, s)-l.before[i])
	}
	return n - int(time.Since(l.start)/time.Second) - 1
}

// TestLockAndUnlockCostTwoScripts: a lock without contention costs each master two scripts, at any
// distance. The answers of a single distant master come late, which may cost one script more for
// each lock.
func TestLockAndUnlockCostTwoScripts(t *testing.T) {
	t.Parallel()
	l := lab.Start(t, lab.Config{Relays: true, Flags: []string{"--master-timeout", "2s"}})
	for i, row := range []struct {
		trip    time.Duration // in milliseconds
		far     int           // so many masters
		allowed int           // scripts for LOCK and UNLOCK
	}{{0, 3, 2}, {60, 3, 2}, {120, 1, 3}, {20, 3, 2}, {120, 3, 2}, {20, 1, 3}}[:lab.Long(3, 6)] {
		t.Run(fmt.Sprintf("round trip %dms to %d", row.trip, row.far), func(t *testing.T) {
			const pairs = 20
			if i > 0 {
				lab.Pass(t, 2500*time.Millisecond) // checks for the row before come after 2 s
			}
			host := lab.Dial(t, l.Proxies[0].Addr)
			lab.WaitAllVote(t, l, host)
			for m, r := range l.Relays[0] {
				r.Slow(0)
				if m < row.far {
					r.Slow(row.trip * time.Millisecond / 2)
				}
			}
			used := startLoad(t, l.Masters)
			repeats := 0
			for i := range pairs {
				repeats += lockAndUnlockOnce(t, host, host, fmt.Sprint("job-", i), 0)
			}
			lab.WantKeysGone(t, l.Masters, lab.Patience)
			lab.Pass(t, 300*time.Millisecond+2*row.trip*time.Millisecond) // further scripts would come now
			n := used.most(t)
			t.Logf("%.1f scripts a master for each pair", float64(n)/pairs)
			// A repeat costs a LOCK, an UNLOCK and a release.
			if n > row.allowed*pairs+3*repeats {
				t.Errorf("scripts of a master for %d pairs and %d repeats: got %d, want at most %d for each pair",
					pairs, repeats, n, row.allowed)
			}
		})
	}
}

// lockAndUnlockOnce locks through one proxy and unlocks through another after some time. On a busy
// machine it may have to repeat a command, because a majority answered too late; it returns how
// often.
func lockAndUnlockOnce(t testing.TB, first, last *lab.Client, key string, held time.Duration) (repeats int) {
	t.Helper()
	token, reply := "", ""
	if !lab.Poll(lab.Patience, func() bool {
		reply = first.Do("LOCK", key, "60s")
		token = lab.TokenOf(reply)
		if token == "" && (refusedNow(reply, true) || repeats > 0 && reply == lab.Null2) {
			repeats++
			return false
		}
		return true
	}) || token == "" {
		t.Fatalf("LOCK %s: got %q, want a token", key, reply)
	}
	lab.Pass(t, held)
	return repeats + unlockHeld(t, last, key, token)
}

// TestReturnOfMasterCostsOthersNoScripts: a master was away while clients unlocked 60,000 tokens,
// of which it has 5,000 locks. Its return costs the other masters no scripts.
func TestReturnOfMasterCostsOthersNoScripts(t *testing.T) {
	t.Parallel()
	held, others := lab.Long(1000, 5000), lab.Long(11_000, 55_000)
	a := startAbsence(t)
	tokens := a.lockEverywhere("held-", held)
	a.pause()
	a.unlock("held-", tokens, ":1\r\n")
	a.unlockForeign(others)
	used := startLoad(t, a.Masters[:2])
	a.resume()
	lab.Pass(t, time.Second) // further scripts would come now
	if n := used.most(t); n > 100 {
		t.Errorf("scripts of another master for %d owed releases: got %d, want at most 100", held+others, n)
	}
	a.wantNone("held-", held)
}

// TestTopUpCostsOthersOneScript: a master was away while clients took 20,000 locks. Once it is
// back, it gets these locks, and each costs the other masters one script at most.
func TestTopUpCostsOthersOneScript(t *testing.T) {
	t.Parallel()
	locks := lab.Long(2000, 20_000)
	a := startAbsence(t)
	a.pause()
	tokens := a.lock("held-", locks)
	used := startLoad(t, a.Masters[:2])
	a.resume()
	if n := lab.Number(t, lab.Scalar(a.Masters[2].Do(t, "DBSIZE"))); n < locks {
		t.Errorf("locks on the master that was away: got %d, want %d", n, locks)
	}
	lab.Pass(t, 2500*time.Millisecond) // further scripts would come now
	if n := used.most(t); n > locks {
		t.Errorf("scripts of another master for %d top-ups: got %d, want at most one each", locks, n)
	}
	a.unlock("held-", tokens, ":1\r\n")
	lab.WantKeysGone(t, a.Masters, lab.Patience)
}
