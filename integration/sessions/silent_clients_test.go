package sessions

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// Clients that vanish, in every phase of a LOCK and in every manner.

// After a client vanished in any phase, a waiter gets its key: after the ttl if the client had
// got the token or no machine can know that it vanished, else long before the ttl, for which the
// test does not wait.
func TestWaiterOutlivesVanishedClient(t *testing.T) {
	t.Parallel()
	p := lab.StartTwoProxies(t)
	for _, phase := range lab.Phases {
		for _, manner := range lab.Manners {
			t.Run(fmt.Sprint("phase ", phase, ", manner ", manner), func(t *testing.T) {
				t.Parallel()
				ttl := time.Minute
				if phase >= lab.Granted || manner == lab.Frozen && phase > lab.HalfSent {
					ttl = 1500 * time.Millisecond
				}
				wantKeyAfterVanishing(t, p, phase, manner, ttl)
			})
		}
	}
}

// wantKeyAfterVanishing: a waiter gets the key of a client that vanishes in a phase of its LOCK
// with this ttl, and no key of the client is left.
func wantKeyAfterVanishing(t *testing.T, p *lab.TwoProxies, phase lab.Phase, manner lab.Manner, ttl time.Duration) {
	t.Helper()
	holder, waiter := lab.Dial(t, p.Addr), lab.Dial(t, p.Second.Addr)
	key := fmt.Sprintf("job-%d-%d", phase, manner)
	token := ""
	if phase < lab.Granted { // the client finds the key held, and waits
		token = holder.Lock(key, "60s")
	}
	c, _, err := lab.VanishIn(p.Addr, phase, manner, 100*time.Millisecond,
		"LOCK", key, fmt.Sprint(ttl.Milliseconds()), "WAIT", "20s")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	granted := waiter.Later("LOCK", key, "60s", "WAIT", "20s")
	if token != "" {
		if ttl == time.Minute {
			// If the client is reset after the reply is written, the proxy cannot know that the reply was
			// lost, and the lock lives for its ttl.
			lab.WaitFor(t, "the proxy's notice of the vanished client", lab.Patience,
				func() bool { return strings.Contains(holder.Do("LOCKINFO", key), "waiting\r\n:0\r\n") })
		}
		holder.Unlock(key, token)
	}
	next, _ := lab.WantToken(t, "who waits", granted)
	waiter.Unlock(key, next)
	lab.WaitFor(t, "no key of the client left", lab.Patience, func() bool { return p.Holders(t, key) == 0 })
}

// The machine of a SESSION lock's holder is cut off without a FIN. Renewal stops after
// session-timeout, and the key runs out.
func TestSilentSessionRunsOut(t *testing.T) {
	t.Parallel()
	l := lab.Start(t, lab.Config{Net: true, Flags: []string{"--restart-guard", "off", "--session-timeout", "2s"}})
	p := l.Proxies[0]
	machine := l.Net.Node(t)
	_, port, _ := net.SplitHostPort(p.Addr)
	cli := lab.LaunchAt(t, machine, "redis-cli", "-h", p.Node.IP, "-p", port, "-r", "-1", "-i", "100", "LOCK", "job",
		"4s", "SESSION")
	lab.WantHolders(t, l.Masters, "job", 3)
	host := lab.Dial(t, p.Addr)
	for start := time.Now(); time.Since(start) < 6*time.Second; { // it is silent, but connected
		// of busy masters
		if got := host.Do("LOCK", "job", "60s"); got != lab.Null2 && !strings.HasPrefix(got, "-NOQUORUM ") {
			t.Fatalf("LOCK during the session: got %q, want null", got)
		}
		lab.Pass(t, 30*time.Millisecond)
	}
	l.Net.Cut(t, p.Node, machine)
	token, _ := lab.WantToken(t, "LOCK after the cut", host.Later("LOCK", "job", "60s", "WAIT", "60s"))
	host.Unlock("job", token)
	cli.Kill()
}
