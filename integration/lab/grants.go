package lab

import (
	"strings"
	"testing"
)

// SetCountersApart makes the fencing counters of the masters differ. It takes locks through a
// proxy of each single master.
func SetCountersApart(t testing.TB, masters []*Redis, key string, counts []int) {
	t.Helper()
	for i, s := range masters {
		p := StartProxy(t, "--upstream", s.Addr, "--masters", s.Addr, "--restart-guard", "off")
		host := Dial(t, p.Addr)
		for n := 0; n < counts[i]; {
			if token := TokenOf(host.Do("LOCK", key, "60s")); token != "" {
				host.Unlock(key, token)
				n++
			}
		}
		p.Stop(t)
	}
}

// Grant repeats LOCK until it is granted. A majority may be missing for a moment while a proxy
// opens new lanes, and a key counts as held until its release has arrived. Any other reply fails
// the test.
func Grant(t testing.TB, c *Client, key string) string {
	t.Helper()
	return GrantOr(t, c, key, func() string { return "" })
}

// GrantOr is Grant that adds an explanation when it gives up.
func GrantOr(t testing.TB, c *Client, key string, explain func() string) string {
	t.Helper()
	token, reply := "", ""
	granted := Poll(Patience, func() bool {
		reply = c.Do("LOCK", key, "60s")
		token = TokenOf(reply)
		if token == "" && reply != Null2 && !strings.HasPrefix(reply, "-NOQUORUM ") &&
			!strings.HasPrefix(reply, "-TRYAGAIN ") {
			t.Fatalf("LOCK %s: got %q, want a token", key, reply)
		}
		return token != ""
	})
	if !granted {
		t.Fatalf("LOCK %s for %v: got %q, want a token; %s", key, Patience, reply, explain())
	}
	return token
}

// LockSoon repeats LOCK with a ttl of a second, or the given one, until it is granted. A majority
// may be missing for a moment.
func LockSoon(t testing.TB, c *Client, key string, ttl ...string) (token string) {
	t.Helper()
	reply := ""
	if !Poll(Patience, func() bool {
		reply = c.Do("LOCK", key, append(ttl, "1s")[0])
		token = TokenOf(reply)
		return token != ""
	}) {
		t.Fatalf("LOCK %s for %v: got %q, want a token", key, Patience, reply)
	}
	return token
}

// UnlockSurely repeats UNLOCK while too few masters answer, because masters that have just come
// back may not vote.
func UnlockSurely(t testing.TB, c *Client, key, token string) {
	t.Helper()
	WaitFor(t, "UNLOCK by a majority", Patience, func() bool {
		reply := c.Do("UNLOCK", key, token)
		if !strings.HasPrefix(reply, "-NOQUORUM ") && reply != ":1\r\n" && reply != ":0\r\n" {
			t.Errorf("UNLOCK %s: got %q, want 1, 0 or -NOQUORUM", key, reply)
		}
		return !strings.HasPrefix(reply, "-NOQUORUM ")
	})
}
