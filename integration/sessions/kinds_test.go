package sessions

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// Locks of several holders or keys, and clients that leave.

// kinds returns, by name, the options of LOCK and those of a LOCK that it excludes: a key and
// options.
func kinds() map[string][2][]string {
	return map[string][2][]string{
		"shared": {{"SHARED"}, {"job"}},
		"slot":   {{"LIMIT", "1"}, {"job", "LIMIT", "1"}},
		"keys":   {{"KEYS", "2", "job2", "job3"}, {"job3"}},
	}
}

// A session lock of any kind outlives its ttl while the connection is open, ends with it however
// that ends, and leaves no key.
func TestSessionsOfAllKindsEndWithConnection(t *testing.T) {
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
				t.Fatalf("%s: LOCK: got no token", name)
			}
			p.Far.WantDo(lab.Null2, other...)
			leave(host)
			lab.WantKeysGone(t, p.Masters, lab.Patience) // before their ttl of 60s
		}
	}
	host := lab.Dial(t, p.Addr) // side by side on one connection, over several ttls
	for name, kind := range kinds() {
		args := strings.ReplaceAll(strings.Join(kind[0], " "), "job", name)
		host.WantToken(append([]string{"LOCK", name, "6s", "SESSION"}, strings.Fields(args)...)...)
	}
	lab.Pass(t, 7*time.Second)
	for name := range kinds() {
		p.Far.WantDo(lab.Null2, "LOCK", name, "60s")
	}
	host.Close()
	p.WantNoStray(t)
}

// A client disconnects while its LOCK of any kind waits for paused masters. It leaves no slot,
// reader or key, and its next LOCK is granted.
func TestResetWhileDecidingLeavesNoKind(t *testing.T) {
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

// A session lock that EXTEND made shared stays a session lock: it is renewed, and ends with the
// connection. A key that UNLOCK KEEP closed stays closed when the connection ends.
func TestSharedSessionIsRenewedAndKeptKeyStaysClosed(t *testing.T) {
	t.Parallel()
	p := lab.StartTwoProxies(t)
	host := lab.Dial(t, p.Addr)
	token := host.LockSession("job", "6s")
	host.WantDo(":1\r\n", "EXTEND", "job", token, "6s", "SHARED")
	kept := host.LockSession("kept", "60s")
	host.WantDo(":1\r\n", "UNLOCK", "kept", kept, "KEEP", "50s")
	part := host.WantToken("LOCK", "a", "60s", "KEYS", "2", "b", "c", "SESSION")
	host.WantDo(":1\r\n", "UNLOCK", "b", part)
	lab.Pass(t, 7*time.Second)
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
		t.Errorf("LOCKINFO of the kept key: got %v", info)
	}
}
