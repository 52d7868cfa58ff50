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

// Census maps each server's address to the lock keys it has; servers without any are left out.
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

// Settle returns when everything that the proxies have sent, or still owe, to the masters was
// executed: a lock taken through each proxy now stands on every master, and commands on one lane
// are executed in order. All masters must be reachable.
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
		WaitFor(t, "that lock gone from every master", Patience, func() bool { return Holders(t, masters, key) == 0 })
		c.Close()
	}
}

// maxTTL returns the longest ttl that a proxy grants, or a minute.
func maxTTL(c *Client) time.Duration {
	reply := c.Do("LOCK", "settle", "60s", "bad") // refused before the masters are asked; the ttl is read first
	_, limit, found := strings.Cut(strings.TrimSpace(reply), "exceeds max-ttl ")
	if !found {
		return time.Minute
	}
	limit, _, _ = strings.Cut(limit, ":")
	return time.Duration(Number(c.T, limit)) * time.Millisecond
}

// WantNoStray fails if any master keeps a lock key once the proxies have settled. A SET that
// overtook a release sent through another proxy takes one more exchange to find and undo, so
// Patience is granted; but nothing may be left to expiry: the locks of the test need a ttl longer
// than that.
func WantNoStray(t testing.TB, masters []*Redis, proxies ...*Proxy) {
	t.Helper()
	Settle(t, masters, proxies...)
	WantKeysGone(t, masters, Patience)
}

// WantKeysGone waits for the masters to lose all lock keys, which has to happen by releases: well
// before any ttl.
func WantKeysGone(t testing.TB, masters []*Redis, within time.Duration) {
	t.Helper()
	if !Poll(within, func() bool { return len(Census(t, masters)) == 0 }) {
		t.Errorf("stray lock keys, still there after %v: %v", within, Census(t, masters))
	}
}

// Calls returns how often a server has executed commands that a lock needs, by INFO commandstats.
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

// CommandCount returns how often a master has executed a command, or all commands for "".
// Questions of the test itself are in the latter.
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

// ScriptCount is how many scripts a server has run.
func ScriptCount(t testing.TB, s *Redis) int {
	t.Helper()
	return CommandCount(t, s, "evalsha") + CommandCount(t, s, "eval")
}

// CommandCounts adds up over all masters.
func CommandCounts(t testing.TB, masters []*Redis, name string) (n int) {
	t.Helper()
	for _, s := range masters {
		n += CommandCount(t, s, name)
	}
	return n
}

// Holders tells on how many masters a key of that name stands, whoever's it is.
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
		t.Fatalf("%s is on %d masters, want %d", key, Holders(t, masters, key), n)
	}
}

// Left returns for how long each master still keeps the key, shortest first; a master without it
// counts as 0.
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
