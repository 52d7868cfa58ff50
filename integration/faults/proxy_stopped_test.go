package faults

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// Proxies are stopped or killed at the worst moment.

// TestProxyGrantsNoExpiredLockAfterStop: a proxy is stopped for longer than the ttl, at random
// points of a LOCK. A grant that it returns afterwards must be valid, because the proxy reads the
// clock again after its last wait. The stop may fall into the few microseconds from there to the
// write. A LOCK takes 5ms here, so that may happen twice. The test stops a proxy 300 times if
// INTEGRATION_LONG is set.
func TestProxyGrantsNoExpiredLockAfterStop(t *testing.T) {
	t.Parallel()
	seed := lab.SeedOf(t, uint64(time.Now().UnixNano()))
	r := rand.New(rand.NewPCG(seed, 0))
	l := lab.Start(t, lab.Config{Relays: true, Flags: []string{"--restart-guard", "off"}})
	for _, link := range l.Relays[0] {
		link.Slow(2 * time.Millisecond)
	}
	p := l.Proxies[0]
	host := lab.Dial(t, p.Addr)
	const ttl = 200 * time.Millisecond
	granted, stale := 0, 0
	stops := lab.Long(30, 300)
	for i := range stops {
		key := fmt.Sprint("job-", i)
		reply := host.Later("LOCK", key, fmt.Sprint(ttl.Milliseconds()), "FULL")
		lab.Pass(t, time.Duration(r.Int64N(int64(6*time.Millisecond))))
		p.Pause(t)
		lab.Pass(t, ttl+10*time.Millisecond)
		resumed := time.Now()
		p.Resume()
		a := <-reply
		if a.Err != nil {
			t.Fatal(a.Err)
		}
		if a.At.Before(resumed) {
			continue // the reply came before the stop
		}
		parts := lab.Fields(a.Reply)
		if len(parts) != 3 {
			if !strings.HasPrefix(a.Reply, "-TRYAGAIN ") && !strings.HasPrefix(a.Reply, "-NOQUORUM ") && a.Reply != lab.Null2 {
				t.Errorf("LOCK: got %q, want a grant or a refusal", a.Reply)
			}
			continue
		}
		granted++
		if lab.Holders(t, l.Masters, key) < 2 && time.Since(a.At) < time.Duration(lab.Number(t, parts[2]))*time.Millisecond {
			stale++
		}
	}
	t.Logf("%d stops, %d grants after one, %d of them expired", stops, granted, stale)
	if stale > 2 {
		t.Errorf("grants of locks that a majority no longer had: got %d of %d, want at most 2", stale, granted)
	}
}

// TestLocksOfKilledProxyExpire: a proxy dies with many locks, a thousand if INTEGRATION_LONG is
// set. Clients of another proxy get all of them after their ttl, and fences rise.
func TestLocksOfKilledProxyExpire(t *testing.T) {
	t.Parallel()
	const ttl = 3 * time.Second
	l := lab.Start(t, lab.Config{Proxies: 2, Flags: []string{"--restart-guard", "off"}})
	host, other := lab.Dial(t, l.Proxies[0].Addr), lab.Dial(t, l.Proxies[1].Addr)
	var tokens []string
	for i := range lab.Long(200, 1000) {
		tokens = append(tokens, host.Lock(fmt.Sprint("job-", i), fmt.Sprint(ttl.Milliseconds())))
	}
	l.Proxies[0].Kill()
	for i, token := range tokens {
		key, next := fmt.Sprint("job-", i), ""
		lab.WaitFor(t, key, lab.Patience, func() bool {
			next = lab.TokenOf(other.Do("LOCK", key, "30s"))
			return next != ""
		})
		if next <= token {
			t.Errorf("%s: got token %s, want one above %s", key, next, token)
		}
		other.Unlock(key, next)
	}
	lab.WantKeysGone(t, l.Masters, lab.Patience) // sooner than the 30s of the second proxy's locks
}
