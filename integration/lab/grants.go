package lab

import (
	"strings"
	"testing"
)

// SetCountersApart lets the counters of the masters differ, by locks that each takes part in
// alone.
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

// Grant repeats LOCK until it is granted: while lanes are being made anew a majority may be
// missing for a moment, and a key whose release is still on its way counts as held. Any other
// reply fails the test.
func Grant(t testing.TB, c *Client, key string) string {
	t.Helper()
	return GrantOr(t, c, key, func() string { return "" })
}

// GrantOr is Grant that asks for an explanation when it has to give up.
func GrantOr(t testing.TB, c *Client, key string, explain func() string) string {
	t.Helper()
	token, reply := "", ""
	granted := Poll(Patience, func() bool {
		reply = c.Do("LOCK", key, "60s")
		token = TokenOf(reply)
		if token == "" && reply != Null2 && !strings.HasPrefix(reply, "-NOQUORUM ") && !strings.HasPrefix(reply, "-TRYAGAIN ") {
			t.Fatalf("LOCK: %q", reply)
		}
		return token != ""
	})
	if !granted {
		t.Fatalf("LOCK not granted within %v, the last reply was %q; %s", Patience, reply, explain())
	}
	return token
}

// LockSoon repeats LOCK, for a second or the ttl given, until it is granted: a majority may be
// missing for a moment.
func LockSoon(t testing.TB, c *Client, key string, ttl ...string) (token string) {
	t.Helper()
	reply := ""
	if !Poll(Patience, func() bool {
		reply = c.Do("LOCK", key, append(ttl, "1s")[0])
		token = TokenOf(reply)
		return token != ""
	}) {
		t.Fatalf("LOCK %s: %q after %v", key, reply, Patience)
	}
	return token
}

// UnlockSurely unlocks, again while too few masters can be asked: those that have just been given
// back may not vote yet.
func UnlockSurely(t *testing.T, c *Client, key, token string) {
	t.Helper()
	WaitFor(t, "UNLOCK by a majority", Patience, func() bool {
		reply := c.Do("UNLOCK", key, token)
		if !strings.HasPrefix(reply, "-NOQUORUM ") && reply != ":1\r\n" && reply != ":0\r\n" {
			t.Errorf("UNLOCK: %q", reply)
		}
		return !strings.HasPrefix(reply, "-NOQUORUM ")
	})
}
