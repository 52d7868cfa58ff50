package faults

import (
	"strings"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// TestEvictionWithoutProxyIsNoticed: masters evict a lock while no proxy runs, and get their
// policy back before one starts. The proxy notices by the number of evictions since their
// admission.
func TestEvictionWithoutProxyIsNoticed(t *testing.T) {
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

	// Evictions before the admission do not count, not even for a new proxy.
	l.Proxies[0].Restart(t)
	host = lab.Dial(t, l.Proxies[0].Addr)
	lab.WaitAllVote(t, l, host)
	if text := l.Proxies[0].Log.String(); strings.Contains(text, "quarantine") {
		t.Errorf("got a quarantine for evictions before the admission, want none:\n%s", text)
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
		t.Fatal("evicted_keys: got 0, want some")
	}
}
