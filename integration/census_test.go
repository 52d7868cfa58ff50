package integration

import (
	"strings"
	"testing"
	"time"
)

// lockKeys returns all lock keys on the server, without the key prefix.
func lockKeys(t testing.TB, s *redisServer) []string {
	t.Helper()
	var keys []string
	for _, key := range fields(s.do(t, "KEYS", "lock:*")) {
		keys = append(keys, strings.TrimPrefix(key, "lock:"))
	}
	return keys
}

// census maps each server's address to the lock keys it has; servers without any are left out.
func census(t testing.TB, masters []*redisServer) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	for _, s := range masters {
		if keys := lockKeys(t, s); len(keys) > 0 {
			found[s.addr] = keys
		}
	}
	return found
}

// settle returns when everything that the proxies have sent, or still owe, to the masters was executed: a lock
// taken through each proxy now stands on every master, and commands on one lane are executed in order.
// All masters must be reachable.
func settle(t testing.TB, masters []*redisServer, proxies ...*proxy) {
	t.Helper()
	for i, p := range proxies {
		c := dial(t, p.addr)
		key := "settle-" + string(rune('a'+i))
		token := ""
		waitFor(t, "a lock on every master", 2*patience, func() bool {
			if token == "" {
				token, _, _ = c.tryLock(key, "60s")
			}
			for _, s := range masters {
				if s.do(t, "EXISTS", "lock:"+key) != ":1\r\n" {
					return false
				}
			}
			return token != ""
		})
		c.unlock(key, token)
		waitFor(t, "that lock gone from every master", patience, func() bool {
			for _, s := range masters {
				if s.do(t, "EXISTS", "lock:"+key) != ":0\r\n" {
					return false
				}
			}
			return true
		})
		c.Close()
	}
}

// wantNoStray fails if any master keeps a lock key once the proxies have settled. A SET that overtook a release sent
// through another proxy takes one more exchange to find and undo, so a moment is granted; but nothing may be left to
// expiry: the locks of the test need a ttl much longer than that.
func wantNoStray(t testing.TB, masters []*redisServer, proxies ...*proxy) {
	t.Helper()
	settle(t, masters, proxies...)
	wantKeysGone(t, masters, 3*time.Second*slack)
}

// wantKeysGone waits for the masters to lose all lock keys, which has to happen by releases: well before any ttl.
func wantKeysGone(t testing.TB, masters []*redisServer, within time.Duration) {
	t.Helper()
	if !poll(within, func() bool { return len(census(t, masters)) == 0 }) {
		t.Errorf("stray lock keys, still there after %v: %v", within, census(t, masters))
	}
}

// calls returns how often a server has executed commands that a lock needs, by INFO commandstats.
func calls(t testing.TB, s *redisServer) string {
	t.Helper()
	var lines []string
	for line := range strings.Lines(s.do(t, "INFO", "commandstats")) {
		name, stats, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch strings.TrimPrefix(name, "cmdstat_") {
		case "set", "eval", "evalsha", "eval_ro", "evalsha_ro", "del", "get", "hincrby", "fcall":
			count, _, _ := strings.Cut(stats, ",")
			lines = append(lines, name+" "+count)
		}
	}
	return strings.Join(lines, " ")
}
