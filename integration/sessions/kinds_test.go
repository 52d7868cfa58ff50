package sessions

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// Locks of several holders or keys, and clients that leave.

// kinds are the options of LOCK, and what they exclude: a key and options.
func kinds() map[string][2][]string {
	return map[string][2][]string{
		"shared": {{"SHARED"}, {"job"}},
		"slot":   {{"LIMIT", "1"}, {"job", "LIMIT", "1"}},
		"keys":   {{"KEYS", "2", "job2", "job3"}, {"job3"}},
	}
}

// TestSessionsOfAllKinds: a session lock of any kind outlives its ttl while the connection is
// there, ends with it in whatever way that ends, and leaves nothing.
func TestSessionsOfAllKinds(t *testing.T) {
	t.Parallel()
	p := lab.StartTwoProxies(t)
	ways := map[string]func(*lab.Client){
		"fin":  func(c *lab.Client) { c.Close() },
		"rst":  func(c *lab.Client) { c.Reset() },
		"quit": func(c *lab.Client) { c.Send(lab.Encode("QUIT")) },
	}
	for name, kind := range kinds() {
		other := append([]string{"LOCK", kind[1][0], "60s"}, kind[1][1:]...)
		for _, leave := range ways {
			host := lab.Dial(t, p.Addr)
			command := append([]string{"LOCK", "job", "60s", "SESSION"}, kind[0]...)
			if token := lab.TokenOf(host.Do(command...)); token == "" {
				t.Fatalf("%s: not granted", name)
			}
			p.Far.WantDo(lab.Null2, other...)
			leave(host)
			lab.WantKeysGone(t, p.Masters, lab.Patience) // of 60s
		}
	}
	host := lab.Dial(t, p.Addr) // beside each other on one connection, over some ttls
	for name, kind := range kinds() {
		args := strings.ReplaceAll(strings.Join(kind[0], " "), "job", name)
		host.WantToken(append([]string{"LOCK", name, "2s", "SESSION"}, strings.Fields(args)...)...)
	}
	lab.Pass(t, 3*time.Second)
	for name := range kinds() {
		p.Far.WantDo(lab.Null2, "LOCK", name, "60s")
	}
	host.Close()
	p.WantNoStray(t)
}

// TestResetWhileKindsDecided: a client hangs up while its LOCK of any kind is decided, as too many
// masters are paused. No slot, reader or key is left of it, and the second try is granted.
func TestResetWhileKindsDecided(t *testing.T) {
	t.Parallel()
	c := lab.StartCluster(t, 5, "--master-timeout", "3s")
	for name, kind := range kinds() {
		for i, masters := range [][]*lab.Redis{c.Masters[:3], c.Masters} {
			for _, s := range masters {
				s.Pause(t)
			}
			host := lab.Dial(t, c.Addr)
			host.Send(lab.Encode(append([]string{"LOCK", "job", "60s"}, kind[0]...)...))
			lab.Pass(t, 50*time.Millisecond)
			host.Reset()
			lab.Pass(t, 50*time.Millisecond)
			for _, s := range masters {
				s.Resume()
			}
			again := lab.Dial(t, c.Addr)
			what := fmt.Sprintf("%s, %d masters paused", name, len(masters))
			other := append([]string{"LOCK", kind[1][0], "60s"}, kind[1][1:]...)
			token := ""
			lab.WaitFor(t, what, lab.Patience, func() bool {
				token = lab.TokenOf(again.Do(other...))
				return token != ""
			})
			again.Unlock(kind[1][0], token)
			lab.WantNoStray(t, c.Masters, c.Proxy)
			if t.Failed() {
				t.Fatal(what, i)
			}
		}
	}
}

// TestSharedAndKeptSessions: a session lock that was made a shared one still is one: it is renewed,
// and ends with the connection. What UNLOCK KEEP closed stays closed when the connection ends.
func TestSharedAndKeptSessions(t *testing.T) {
	t.Parallel()
	p := lab.StartTwoProxies(t)
	host := lab.Dial(t, p.Addr)
	token := host.LockSession("job", "2s")
	host.WantDo(":1\r\n", "EXTEND", "job", token, "2s", "SHARED")
	kept := host.LockSession("kept", "60s")
	host.WantDo(":1\r\n", "UNLOCK", "kept", kept, "KEEP", "50s")
	part := host.WantToken("LOCK", "a", "60s", "KEYS", "2", "b", "c", "SESSION")
	host.WantDo(":1\r\n", "UNLOCK", "b", part)
	lab.Pass(t, 3*time.Second)
	reader := p.Far.WantToken("LOCK", "job", "60s", "SHARED")
	p.Far.WantDo(lab.Null2, "LOCK", "job", "60s")
	p.Far.WantDo(lab.Null2, "LOCK", "a", "60s")
	p.Far.Unlock("b", p.Far.Lock("b", "60s"))
	host.Close()
	lab.WaitFor(t, "one reader", lab.Patience, func() bool {
		return lab.MapOf(p.Far.Do("LOCKINFO", "job"))["holders"] == "1"
	})
	p.Far.Unlock("job", reader)
	p.WantHolders(t, "job", 0)
	p.WantHolders(t, "a", 0)
	p.WantHolders(t, "c", 0)
	p.Far.WantDo(lab.Null2, "LOCK", "kept", "60s")
	if info := lab.MapOf(p.Far.Do("LOCKINFO", "kept")); info["mode"] != "kept" {
		t.Errorf("kept: %v", info)
	}
}
