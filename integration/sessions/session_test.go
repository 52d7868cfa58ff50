package sessions

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// Locks that belong to a connection: LOCK ... SESSION.

// A SESSION lock of 6s lives as long as its connection is open, and a waiter gets it when the
// client ends the connection by close, reset, QUIT, RESET or kill -9. Renewals come on time (B17:
// rueidis#923). The connection is open for 8s, or for 30s if INTEGRATION_LONG is set.
func TestSessionLastsAsLongAsConnection(t *testing.T) {
	t.Parallel()
	p := lab.StartTwoProxies(t)
	open := 8 * time.Second
	if os.Getenv("INTEGRATION_LONG") != "" {
		open = 30 * time.Second
	}
	cli := lab.LaunchCli(t, p.Addr, "LOCK", "kill", "6s", "SESSION")
	hosts := map[string]*lab.Client{}
	ends := map[string]func(){"kill": cli.Kill}
	for name, end := range map[string]func(*lab.Client){
		"fin":   func(c *lab.Client) { c.Close() },
		"rst":   (*lab.Client).Reset,
		"quit":  func(c *lab.Client) { c.WantDo("+OK\r\n", "QUIT") },
		"reset": func(c *lab.Client) { c.WantDo("+RESET\r\n", "RESET") },
		"half":  func(c *lab.Client) { _ = c.CloseWrite() },
		"after": func(c *lab.Client) { c.Send(lab.Encode("GET", "a") + lab.Encode("QUIT")) }, // with an upstream connection
	} {
		host := lab.Dial(t, p.Addr)
		if name == "after" {
			host.WantDo(lab.Null2, "GET", "a")
		}
		host.LockSession(name, "6s")
		hosts[name], ends[name] = host, func() { end(host) }
	}
	p.WantHolders(t, "kill", 5)
	for start := time.Now(); time.Since(start) < open; {
		for key := range ends {
			p.Far.WantDo(lab.Null2, "LOCK", key, "60s")
		}
		lab.Pass(t, 50*time.Millisecond)
	}
	for key, end := range ends {
		wakes := p.Far.Later("LOCK", key, "60s", "WAIT", "0")
		lab.Dial(t, p.Second.Addr).WaitWaiting(1)
		p.WaitSubscribed(t, key)
		end()
		token, _ := lab.WantToken(t, key, wakes)
		p.Far.Unlock(key, token)
	}
	hosts["reset"].WantDo("+PONG\r\n", "PING")
	p.WantNoStray(t)
}

// If the client did not end the connection, the key runs out by its ttl and no earlier, because
// the holder may still be working.
func TestSessionRunsOutIfProxyEndsIt(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*lab.TwoProxies){
		"proxy killed":  func(p *lab.TwoProxies) { p.Kill() },
		"drain":         func(p *lab.TwoProxies) { p.Signal(syscall.SIGTERM) },
		"upstream died": func(p *lab.TwoProxies) { p.Upstream.Kill() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := lab.StartTwoProxies(t)
			host := lab.Dial(t, p.Addr)
			host.WantDo("+OK\r\n", "SET", "a", "1") // opens the connection to the upstream
			const ttl = 6 * time.Second
			host.LockSession("job", ttl.String())
			locked := time.Now()
			lab.WaitFor(t, "a renewal", lab.Patience, func() bool {
				return p.Left(t, "job")[2] > ttl-time.Since(locked)+time.Second
			})
			granted := p.Far.Later("LOCK", "job", "60s", "WAIT", "0")
			start := time.Now() // before the question, which takes time
			left := p.Left(t, "job")
			end(p)
			host.WantClosed()
			host.Close()
			// The third master to lose the key completes the majority that can grant it again.
			_, at := lab.WantToken(t, name, granted)
			if took := at.Sub(start); took < left[2]-20*time.Millisecond {
				t.Errorf("the lock was free after %v, want its ttl of %v", took, left[2])
			}
		})
	}
}

// A connection that never needed the upstream outlives it, with its lock.
func TestSessionOutlivesUpstream(t *testing.T) {
	t.Parallel()
	p := lab.StartTwoProxies(t)
	host := lab.Dial(t, p.Addr)
	token := host.LockSession("job", "4s")
	p.Upstream.Kill()
	lab.Pass(t, 5*time.Second)
	p.Far.WantDo(lab.Null2, "LOCK", "job", "60s")
	host.Unlock("job", token)
	p.Far.Unlock("job", p.Far.Lock("job", "60s"))
}

// After an end other than QUIT the key stays closed for session-lock-delay, 4s. QUIT and UNLOCK
// release it at once: there the delay is a minute, and the test does not wait that long.
func TestSessionLockDelayKeepsKeyClosed(t *testing.T) {
	t.Parallel()
	short, long := lab.StartTwoProxies(t, "--session-lock-delay", "4s"),
		lab.StartTwoProxies(t, "--session-lock-delay", "60s")
	for name, end := range map[string]func(*lab.Client){
		"fin":   func(c *lab.Client) { c.Close() },
		"rst":   (*lab.Client).Reset,
		"reset": func(c *lab.Client) { c.WantDo("+RESET\r\n", "RESET") },
	} {
		for _, ttl := range []string{"3s", "30s"} { // below the delay, and above it
			key := fmt.Sprintf("%s-%s", name, ttl)
			t.Run(key, func(t *testing.T) {
				t.Parallel()
				host, other := lab.Dial(t, short.Addr), lab.Dial(t, short.Second.Addr)
				host.LockSession(key, ttl)
				start := time.Now()
				end(host)
				if took := other.WantFree(key).Sub(start); took < 3990*time.Millisecond {
					t.Errorf("the lock was free after %v, want at least 4s", took)
				}
			})
		}
	}
	quit := func(c *lab.Client, _, _ string) { c.WantDo("+OK\r\n", "QUIT") }
	for key, c := range map[string]struct {
		ttl string
		end func(c *lab.Client, key, token string)
	}{
		"quit-1s":  {"1s", quit},
		"quit-30s": {"30s", quit},
		"unlock":   {"1s", (*lab.Client).Unlock},
	} {
		t.Run(key, func(t *testing.T) {
			t.Parallel()
			host, other := lab.Dial(t, long.Addr), lab.Dial(t, long.Second.Addr)
			c.end(host, key, host.LockSession(key, c.ttl))
			other.WantFree(key)
		})
	}
}

// A lock without SESSION outlives its connection. A lock with it is not released by the end of
// another connection, nor left over after UNLOCK through another connection: pooled connections
// released locks early or kept orphans (B37: with_advisory_lock#43, #45).
func TestOnlySessionLocksEndWithConnection(t *testing.T) {
	t.Parallel()
	p := lab.StartTwoProxies(t)
	host, neighbour := lab.Dial(t, p.Addr), lab.Dial(t, p.Addr)
	plain := host.Lock("plain", "60s")
	kept := host.LockSession("kept", "4s")
	neighbour.WantDo(lab.Null2, "LOCK", "kept", "60s", "SESSION") // refused: not this connection's
	stays := neighbour.LockSession("stays", "4s")
	neighbour.Unlock("kept", kept)
	host.Close()
	p.Far.WantDo(lab.Null2, "LOCK", "plain", "60s")
	token := p.Far.Lock("kept", "60s")
	lab.Pass(t, 5*time.Second)
	p.Far.Unlock("kept", token) // the old session neither renewed nor released the new lock
	p.Far.WantDo(lab.Null2, "LOCK", "stays", "60s")
	p.Far.Unlock("plain", plain)
	p.Far.Unlock("stays", stays) // through the other proxy: the renewal notices
	start := time.Now()
	token = p.Far.Lock("stays", "5s")
	neighbour.Close()
	lab.Pass(t, 200*time.Millisecond)
	p.Near.WantDo(lab.Null2, "LOCK", "stays", "60s")
	if took := p.Near.WantFree("stays").Sub(start); took < 4990*time.Millisecond {
		t.Errorf("the lock was free after %v, want the ttl of 5s", took)
	}
	if reply := p.Far.Do("UNLOCK", "stays", token); !strings.HasPrefix(reply, ":0") {
		t.Errorf("UNLOCK after expiry: got %q, want 0", reply)
	}
	p.WantNoStray(t)
}
