package integration

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// What the tests of waiting, sessions and operators' commands share.

// pair is an upstream and five masters with two proxies before them.
type pair struct {
	*cluster         // with the first proxy
	two      *proxy  // the second
	desk     *client // to the first proxy, for questions and for what others do
	far      *client // to the second
}

// startPair starts it. The flags go to both proxies.
func startPair(t testing.TB, flags ...string) *pair {
	t.Helper()
	p := &pair{cluster: startCluster(t, 5, flags...)}
	p.two = p.another(t)
	p.desk, p.far = dial(t, p.addr), dial(t, p.two.addr)
	return p
}

// relayedPair is a pair whose proxies reach the masters through relays.
func relayedPair(t testing.TB, flags ...string) (*pair, []*relay) {
	t.Helper()
	servers := startMasters(t, 6)
	relays, list := startRelays(t, servers[1:])
	p := &pair{cluster: &cluster{upstream: servers[0], masters: servers[1:]}}
	p.flags = append([]string{"--upstream", servers[0].addr, "--masters", list, "--restart-guard", "off"}, flags...)
	p.proxy, p.two = p.another(t), p.another(t)
	p.desk, p.far = dial(t, p.addr), dial(t, p.two.addr)
	return p, relays
}

// wantNoStray fails if a lock key is left behind on a master that can only have been left to expiry.
func (p *pair) wantNoStray(t testing.TB) {
	t.Helper()
	wantNoStray(t, p.masters, p.proxy, p.two)
}

// wantHolders waits until exactly n masters have a key of that name, whoever's it is.
func (p *pair) wantHolders(t testing.TB, key string, n int) {
	t.Helper()
	if !poll(patience, func() bool { return p.holders(t, key) == n }) {
		t.Fatalf("%s is on %d masters, want %d", key, p.holders(t, key), n)
	}
}

func (p *pair) holders(t testing.TB, key string) (n int) {
	t.Helper()
	for _, s := range p.masters {
		if s.do(t, "EXISTS", "lock:"+key) == ":1\r\n" {
			n++
		}
	}
	return n
}

// left returns for how long each master still keeps the key, shortest first; a master without it counts as 0.
func (p *pair) left(t testing.TB, key string) []time.Duration {
	t.Helper()
	var list []time.Duration
	for _, s := range p.masters {
		ms, err := strconv.Atoi(scalar(s.do(t, "PTTL", "lock:"+key)))
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, time.Duration(max(ms, 0))*time.Millisecond)
	}
	slices.Sort(list)
	return list
}

// answered is a reply with the time when it came.
type answered struct {
	reply string
	at    time.Time
	err   error
}

// later sends a command, and delivers its reply when there is one.
func (c *client) later(args ...string) <-chan answered {
	c.t.Helper()
	c.send(encode(args...))
	ch := make(chan answered, 1)
	go func() {
		reply, err := c.read()
		ch <- answered{reply, time.Now(), err}
	}()
	return ch
}

// wantToken waits for the reply to a LOCK that must be granted.
func wantToken(t testing.TB, what string, ch <-chan answered) (token string, at time.Time) {
	t.Helper()
	select {
	case a := <-ch:
		if token = tokenOf(a.reply); token == "" {
			t.Fatalf("%s: %q (%v), want a token", what, a.reply, a.err)
		}
		return token, a.at
	case <-time.After(patience):
		t.Fatalf("%s: no reply within %v", what, patience)
	}
	return "", time.Time{}
}

// wantSilence fails if a reply has come already.
func wantSilence(t testing.TB, what string, ch <-chan answered) {
	t.Helper()
	select {
	case a := <-ch:
		t.Fatalf("%s: %q (%v), want no reply yet", what, a.reply, a.err)
	default:
	}
}

// waitWaiting returns when n clients wait in the proxy that c is connected to.
func (c *client) waitWaiting(n int) {
	c.t.Helper()
	waitFor(c.t, strconv.Itoa(n)+" waiters", patience, func() bool { return c.counter("waiting") == n })
}

// counter returns a number of LOCKPROXY INFO.
func (c *client) counter(name string) int {
	c.t.Helper()
	for line := range strings.Lines(scalar(c.do("LOCKPROXY", "INFO"))) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), name+":"); ok {
			n, err := strconv.Atoi(value)
			if err != nil {
				c.t.Fatal(err)
			}
			return n
		}
	}
	c.t.Fatalf("no %s in LOCKPROXY INFO", name)
	return 0
}

// commandCount returns how often a master has executed a command, or all commands for "". Questions of the test itself
// are in the latter.
func commandCount(t testing.TB, s *redisServer, name string) (n int) {
	t.Helper()
	for line := range strings.Lines(s.do(t, "INFO", "commandstats")) {
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

// commandCounts adds up over all masters.
func commandCounts(t testing.TB, masters []*redisServer, name string) (n int) {
	t.Helper()
	for _, s := range masters {
		n += commandCount(t, s, name)
	}
	return n
}

func median(list []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(list))
	return sorted[len(sorted)/2]
}

// mapOf returns a map of scalars, as RESP2 or RESP3 writes it.
func mapOf(frame string) map[string]string {
	m := map[string]string{}
	for pair := range slices.Chunk(fields(frame), 2) {
		if len(pair) == 2 {
			m[pair[0]] = pair[1]
		}
	}
	return m
}
