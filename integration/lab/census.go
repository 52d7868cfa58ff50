package lab

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// LockKeys returns all lock keys on the server, without the key prefix.
func LockKeys(t testing.TB, s *Redis) []string {
	t.Helper()
	var keys []string
	for _, key := range Fields(s.Do(t, "KEYS", "lock:*")) {
		keys = append(keys, strings.TrimPrefix(key, "lock:"))
	}
	return keys
}

// Census maps the address of each server that has lock keys to these keys.
func Census(t testing.TB, masters []*Redis) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	for _, s := range masters {
		if keys := LockKeys(t, s); len(keys) > 0 {
			found[s.Addr] = keys
		}
	}
	return found
}

// Settle waits until the masters have executed all commands that the proxies have sent or owe
// them. It takes a lock through each proxy and waits until every master has it, because each lane
// executes commands in order. All masters must be reachable.
func Settle(t testing.TB, masters []*Redis, proxies ...*Proxy) {
	t.Helper()
	for i, p := range proxies {
		c := Dial(t, p.Addr)
		key, ttl := fmt.Sprintf("settle-%d", i), maxTTL(c)
		token, taken := "", time.Time{}
		WaitFor(t, "a lock on every master", 2*Patience, func() bool {
			if token == "" || time.Since(taken) > ttl {
				token, _, _ = c.TryLock(key, fmt.Sprint(ttl.Milliseconds()))
				taken = time.Now()
			}
			return token != "" && Holders(t, masters, key) == len(masters)
		})
		c.Do("UNLOCK", key, token)
		WaitFor(t, "the release of that lock on every master", Patience,
			func() bool { return Holders(t, masters, key) == 0 })
		c.Close()
	}
}

// maxTTL returns the longest ttl that a proxy grants, or a minute.
func maxTTL(c *Client) time.Duration {
	reply := c.Do("LOCK", "settle", "60s", "bad") // the proxy checks the ttl first, and asks no master
	_, limit, found := strings.Cut(strings.TrimSpace(reply), "exceeds max-ttl ")
	if !found {
		return time.Minute
	}
	limit, _, _ = strings.Cut(limit, ":")
	return time.Duration(Number(c.T, limit)) * time.Millisecond
}

// WantNoStray fails if any master keeps a lock key for Patience after the proxies have settled. A
// proxy needs one more round trip to find and undo a SET that overtook a release by another proxy.
// The locks of the test need a ttl longer than Patience, so that no key just expires.
func WantNoStray(t testing.TB, masters []*Redis, proxies ...*Proxy) {
	t.Helper()
	Settle(t, masters, proxies...)
	WantKeysGone(t, masters, Patience)
}

// WantKeysGone waits until no master has a lock key. Releases must cause that, so the ttl of the
// test's locks must be longer than within.
func WantKeysGone(t testing.TB, masters []*Redis, within time.Duration) {
	t.Helper()
	if !Poll(within, func() bool { return len(Census(t, masters)) == 0 }) {
		t.Errorf("lock keys on masters after %v: got %v, want none", within, Census(t, masters))
	}
}

// Calls returns how often a server has executed each command that a lock needs, from INFO
// commandstats.
func Calls(t testing.TB, s *Redis) string {
	t.Helper()
	var lines []string
	for line := range strings.Lines(s.Do(t, "INFO", "commandstats")) {
		name, stats, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch strings.TrimPrefix(name, "cmdstat_") {
		case "set", "eval", "evalsha", "eval_ro", "evalsha_ro", "del", "get", "hincrby", "fcall":
			count, _, _ := strings.Cut(stats, ",")
			lines = append(lines, name+" "+count)
		}
	}
	return strings.Join(lines, " ")
}

// CommandCount returns how often a master has executed a command, or all commands for "". That
// includes the test's own commands.
func CommandCount(t testing.TB, s *Redis, name string) (n int) {
	t.Helper()
	for line := range strings.Lines(s.Do(t, "INFO", "commandstats")) {
		command, stats, ok := strings.Cut(strings.TrimSpace(line), ":calls=")
		if !ok || name != "" && command != "cmdstat_"+name {
			continue
		}
		count, _, _ := strings.Cut(stats, ",")
		calls, err := strconv.Atoi(count)
		if err != nil {
			t.Fatal(err)
		}
		n += calls
	}
	return n
}

// ScriptCount returns how many scripts a server has run.
func ScriptCount(t testing.TB, s *Redis) int {
	t.Helper()
	return CommandCount(t, s, "evalsha") + CommandCount(t, s, "eval")
}

// CommandCounts returns the sum of CommandCount over all masters.
func CommandCounts(t testing.TB, masters []*Redis, name string) (n int) {
	t.Helper()
	for _, s := range masters {
		n += CommandCount(t, s, name)
	}
	return n
}

// Holders returns how many masters have a key of that name, of any holder.
func Holders(t testing.TB, masters []*Redis, key string) (n int) {
	t.Helper()
	for _, s := range masters {
		if s.Do(t, "EXISTS", "lock:"+key) == ":1\r\n" {
			n++
		}
	}
	return n
}

// WantHolders waits until exactly n masters have a key of that name.
func WantHolders(t testing.TB, masters []*Redis, key string, n int) {
	t.Helper()
	if !Poll(Patience, func() bool { return Holders(t, masters, key) == n }) {
		t.Fatalf("masters with %s: got %d, want %d", key, Holders(t, masters, key), n)
	}
}

// Left returns the rest of the key's ttl on each master, shortest first; 0 for a master without
// the key.
func Left(t testing.TB, masters []*Redis, key string) []time.Duration {
	t.Helper()
	var list []time.Duration
	for _, s := range masters {
		ms := Number(t, Scalar(s.Do(t, "PTTL", "lock:"+key)))
		list = append(list, time.Duration(max(ms, 0))*time.Millisecond)
	}
	slices.Sort(list)
	return list
}
