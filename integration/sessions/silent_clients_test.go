package sessions

import (
	"fmt"
	"net"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// Clients that vanish: in every phase of a LOCK, in every manner.

// TestClientVanishes: whatever a client was doing when it vanished, whoever waits for the key gets
// it: by the ttl if the vanished one had been told that it has the lock, or if nobody can know that
// it is gone, and else without it: the ttl is longer than the test waits.
func TestClientVanishes(t *testing.T) {
	t.Parallel()
	p := lab.StartTwoProxies(t)
	for _, phase := range lab.Phases {
		for _, manner := range lab.Manners {
			t.Run(fmt.Sprint("phase ", phase, ", manner ", manner), func(t *testing.T) {
				t.Parallel()
				holder, waiter := lab.Dial(t, p.Addr), lab.Dial(t, p.Second.Addr)
				key := fmt.Sprintf("job-%d-%d", phase, manner)
				told := phase >= lab.Granted
				ttl := time.Minute
				if told || manner == lab.Frozen && phase > lab.HalfSent {
					ttl = 1500 * time.Millisecond
				}
				token := ""
				if !told { // it finds the key taken, and waits
					token = holder.Lock(key, "60s")
				}
				c, _, err := lab.VanishIn(p.Addr, phase, manner, 100*time.Millisecond, "LOCK", key, fmt.Sprint(ttl.Milliseconds()), "WAIT", "20s")
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				granted := waiter.Later("LOCK", key, "60s", "WAIT", "20s")
				if token != "" {
					holder.Unlock(key, token)
				}
				next, _ := lab.WantToken(t, "who waits", granted)
				waiter.Unlock(key, next)
				lab.WaitFor(t, "nothing of it is left", lab.Patience, func() bool { return p.Holders(t, key) == 0 })
			})
		}
	}
}

// TestSilentSession: the machine of a SESSION lock's holder is cut off, and nobody says so.
// Renewal stops when session-timeout is over, and the key runs out.
func TestSilentSession(t *testing.T) {
	t.Parallel()
	l := lab.Start(t, lab.Config{Net: true, Flags: []string{"--restart-guard", "off", "--session-timeout", "2s"}})
	p := l.Proxies[0]
	machine := l.Net.Node(t)
	_, port, _ := net.SplitHostPort(p.Addr)
	cli := lab.LaunchAt(t, machine, "redis-cli", "-h", p.Node.IP, "-p", port, "-r", "-1", "-i", "100", "LOCK", "job", "1s", "SESSION")
	lab.WantHolders(t, l.Masters, "job", 3)
	host := lab.Dial(t, p.Addr)
	for start := time.Now(); time.Since(start) < 3*time.Second; { // it is silent, but there
		host.WantDo(lab.Null2, "LOCK", "job", "1s")
		lab.Pass(t, 30*time.Millisecond)
	}
	l.Net.Cut(t, p.Node, machine)
	token, _ := lab.WantToken(t, "LOCK after the cut", host.Later("LOCK", "job", "1s", "WAIT", "30s"))
	host.Unlock("job", token)
	cli.Kill()
}
