package locks

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"lockproxy/integration/history"
	"lockproxy/integration/lab"
)

// A proxy of the version before kinds, in front of the same masters. INTEGRATION_OLD names a build
// of it, as for the tests of upgrades; without it the tests are skipped.

// startMixedCrowd has a proxy of this version, which comes first, and one of that before.
func startMixedCrowd(t *testing.T) *crowd {
	t.Helper()
	path := os.Getenv("INTEGRATION_OLD")
	if path == "" {
		t.Skip("INTEGRATION_OLD names no build of the version before")
	}
	l := lab.Start(t, lab.Config{Proxies: -1, Flags: []string{"--master-timeout", "2s"}})
	old := l.StartProxyOf(t, path)
	old.WaitVoting(t)
	reply := lab.Dial(t, old.Addr).Do("LOCK", "probe", "100ms", "SHARED")
	if !strings.HasPrefix(reply, "-ERR") {
		t.Skipf("INTEGRATION_OLD knows kinds: %q", reply)
	}
	now := l.StartProxy(t)
	now.WaitVoting(t)
	c := &crowd{t: t, log: history.NewLog(), stop: make(chan struct{})}
	c.seed = lab.SeedOf(t, uint64(time.Now().UnixNano()))
	first := &lab.Cluster{Proxy: now, Upstream: l.Upstream, Masters: l.Masters}
	c.TwoProxies = &lab.TwoProxies{Cluster: first, Second: old,
		Near: lab.Dial(t, now.Addr), Far: lab.Dial(t, old.Addr)}
	return c
}

// TestOldVersionIsRefused: it grants nothing beside a lock of any kind, does no harm to it, and
// what it holds refuses each kind.
func TestOldVersionIsRefused(t *testing.T) {
	t.Parallel()
	c := startMixedCrowd(t)
	for _, options := range [][]string{{"SHARED"}, {"LIMIT", "3"}, {"KEYS", "2", "job2", "job3"}} {
		lock, keys := append([]string{"LOCK", "job", "60s"}, options...), []string{"job"}
		if options[0] == "KEYS" {
			keys = append(keys, options[2:]...)
		}
		token := c.Near.WantToken(lock...)
		for _, key := range keys {
			c.WantHolders(t, key, 3)
			c.Far.WantDo(lab.Null2, "LOCK", key, "60s")
			c.Far.WantDo(lab.Null2, "LOCK", key, "60s", "WAIT", "50ms")
			c.Far.Do("LOCKINFO", key)
		}
		if len(keys) == 1 { // several keys are locks of their own for it
			c.Far.Do("EXTEND", "job", token, "60s")
			c.Far.Do("UNLOCK", "job", token)
			c.WantHolders(t, "job", 3)
		}
		unlock := []string{"UNLOCK", "job", token}
		if len(keys) > 1 {
			unlock = append(unlock, options...)
		}
		c.Near.WantDo(":1\r\n", unlock...)
		for _, key := range keys {
			theirs := lab.Grant(t, c.Far, key)
			c.Near.WantDo(lab.Null2, lock...)
			c.Far.Unlock(key, theirs)
			lab.WantKeysGone(t, c.Masters, lab.Patience)
		}
	}
	token := c.Near.Lock("job", "60s")
	c.Near.WantDo(":1\r\n", "UNLOCK", "job", token, "KEEP", "30s")
	c.Far.WantDo(lab.Null2, "LOCK", "job", "60s")
	c.Far.WantDo(":0\r\n", "UNLOCK", "job", token)
	c.Near.WantDo(lab.Null2, "LOCK", "job", "60s")
	for _, s := range c.Masters {
		s.Do(t, "DEL", "lock:job")
	}
}

// TestOldVersionBesideKinds: clients of both versions want three keys all the time, those of this
// one with all kinds of locks. No two are ever granted what excludes each other, and both get
// their turns.
func TestOldVersionBesideKinds(t *testing.T) {
	t.Parallel()
	c := startMixedCrowd(t)
	keys := []string{"a", "b", "c"}
	c.start(0, 16, func(m *member) bool {
		mode, of, limit := history.Exclusive, []string{keys[m.IntN(3)]}, 0
		if m.via == 0 {
			switch m.IntN(4) {
			case 0:
				mode = history.Shared
			case 1:
				mode, limit = history.Limited, 3
			case 2:
				of = keys
			}
		}
		h, ok := m.lock(20*time.Second, of, mode, limit, m.IntN(2) == 0)
		if !ok || h == nil {
			m.sleep(m.upTo(5 * time.Millisecond))
			return ok
		}
		m.sleep(m.upTo(10 * time.Millisecond))
		return m.unlock(h)
	})
	lab.Pass(t, 4*time.Second)
	c.end()
	grants := map[string]int{}
	for _, o := range c.log.Ops() {
		if o.Kind == history.Lock {
			grants[fmt.Sprintf("version %d %v", o.Via, o.Mode)]++
		}
	}
	t.Logf("grants: %v", grants)
	if len(grants) != 4 {
		t.Error("not all kinds were granted by this version (0), and plain ones by that before (1)")
	}
	c.wantLegal()
}
