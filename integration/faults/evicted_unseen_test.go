package faults

import (
	"strings"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// TestEvictedUnseen: masters throw a lock away while no proxy runs, and have their policy back
// before one starts. The number of evictions since the admission gives them away (L2).
func TestEvictedUnseen(t *testing.T) {
	t.Parallel()
	const maxTTL = 3 * time.Second
	l := lab.StartGuarded(t, maxTTL, lab.Config{})
	host := lab.Dial(t, l.Proxies[0].Addr)
	lab.WaitAllVote(t, l, host)
	token, until := hold(host, "job", maxTTL)
	lab.WantHolders(t, l.Masters, "job", 3)
	l.Proxies[0].Kill()
	for _, s := range l.Masters[:2] {
		evictLocks(t, s)
	}
	l.Proxies[0].Restart(t)
	host = lab.Dial(t, l.Proxies[0].Addr)
	wantNextHolder(t, host, "job", token, until, 2*maxTTL)
	lab.WaitAllVote(t, l, host)

	// Evictions of before the admission count no more, for a new proxy neither.
	l.Proxies[0].Restart(t)
	host = lab.Dial(t, l.Proxies[0].Addr)
	lab.WaitAllVote(t, l, host)
	if text := l.Proxies[0].Log.String(); strings.Contains(text, "quarantine") {
		t.Errorf("masters that had evicted keys before their admission are in quarantine:\n%s", text)
	}
}

// evictLocks makes a server evict every key that has an expiry. Its settings are then as before.
func evictLocks(t testing.TB, s *lab.Redis) {
	t.Helper()
	s.Must(t, "CONFIG", "SET", "maxmemory-policy", "volatile-ttl", "maxmemory", "1")
	lab.WaitFor(t, "evictions", lab.Patience, func() bool {
		s.Do(t, "SET", "too-much", "1") // makes room first
		return len(lab.LockKeys(t, s)) == 0
	})
	s.Must(t, "CONFIG", "SET", "maxmemory", "0", "maxmemory-policy", "noeviction")
	if s.Info(t, "stats", "evicted_keys") == "0" {
		t.Fatal("nothing was evicted")
	}
}
