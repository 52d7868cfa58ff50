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

// A proxy of the version before kinds of locks uses the same masters. INTEGRATION_OLD names a
// build of it; without that variable these tests are skipped.

// startMixedCrowd starts a crowd whose first proxy is of this version, and whose second is of the
// version before.
func startMixedCrowd(t *testing.T) *crowd {
	t.Helper()
	path := os.Getenv("INTEGRATION_OLD")
	if path == "" {
		t.Skip("INTEGRATION_OLD is not set")
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

// TestOldVersionAndKindsExcludeEachOther: the old version is refused a key that has a lock of any
// kind and leaves that lock alone. A lock of the old version refuses each kind.
func TestOldVersionAndKindsExcludeEachOther(t *testing.T) {
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
		if len(keys) == 1 { // the old version takes several keys for as many locks
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

// TestOldVersionAndKindsTakeTurns: clients of both versions want three keys all the time, and
// clients of this version use all kinds of locks. No two hold locks that exclude each other, and
// clients of both versions get their turns.
func TestOldVersionAndKindsTakeTurns(t *testing.T) {
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
		t.Errorf("got grants %v, want all three kinds by this version (0) and plain locks by the old one (1)", grants)
	}
	c.wantLegal()
}
