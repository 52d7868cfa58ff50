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
// it: at once if the vanished one had nothing, by the ttl if it had been told that it has the
// lock, or if nobody can know that it is gone.
func TestClientVanishes(t *testing.T) {
	t.Parallel()
	const ttl = 1500 * time.Millisecond
	p := lab.StartTwoProxies(t)
	for _, phase := range lab.Phases {
		for _, manner := range lab.Manners {
			t.Run(fmt.Sprint("phase ", phase, ", manner ", manner), func(t *testing.T) {
				t.Parallel()
				holder, waiter := lab.Dial(t, p.Addr), lab.Dial(t, p.Second.Addr)
				key := fmt.Sprintf("job-%d-%d", phase, manner)
				told := phase >= lab.Granted
				token := ""
				if !told { // it finds the key taken, and waits
					token = holder.Lock(key, "60s")
				}
				c, _, err := lab.VanishIn(p.Addr, phase, manner, 100*time.Millisecond, "LOCK", key, fmt.Sprint(ttl.Milliseconds()), "WAIT", "20s")
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				start := time.Now()
				granted := waiter.Later("LOCK", key, "60s", "WAIT", "20s")
				if token != "" {
					holder.Unlock(key, token)
				}
				next, at := lab.WantToken(t, "who waits", granted)
				bound := 700 * time.Millisecond * lab.Slack
				if told || manner == lab.Frozen && phase > lab.HalfSent {
					bound += ttl
				}
				if took := at.Sub(start); took > bound {
					t.Errorf("granted after %v, want %v at most", took, bound)
				}
				waiter.Unlock(key, next)
				lab.WaitFor(t, "nothing of it is left", ttl+lab.Patience, func() bool { return p.Holders(t, key) == 0 })
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
	start := time.Now()
	token, at := lab.WantToken(t, "LOCK after the cut", host.Later("LOCK", "job", "1s", "WAIT", "30s"))
	t.Logf("free %v after the cut", at.Sub(start))
	if took := at.Sub(start); took > 2*time.Second+time.Second+2*time.Second*lab.Slack {
		t.Errorf("free %v after the cut, want session-timeout of 2s and the ttl of 1s", took)
	}
	host.Unlock("job", token)
	cli.Kill()
}
