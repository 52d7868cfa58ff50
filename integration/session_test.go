package integration

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Locks that belong to a connection: LOCK ... SESSION.

// lockSession sends LOCK ... SESSION, which must be granted, and returns the token.
func (c *client) lockSession(key, ttl string) string {
	c.t.Helper()
	reply := c.do("LOCK", key, ttl, "SESSION")
	token := tokenOf(reply)
	if token == "" {
		c.t.Fatalf("LOCK %s SESSION: %q, want a token", key, reply)
	}
	return token
}

// wantFree asks for key with WAIT, and returns how long after start it was granted. It gives the lock back.
func (c *client) wantFree(key string, start time.Time) time.Duration {
	c.t.Helper()
	token, at := wantToken(c.t, key, c.later("LOCK", key, "60s", "WAIT", "0"))
	c.unlock(key, token)
	return at.Sub(start)
}

// TestSessionLives: a SESSION lock of 2s lives as long as its connection is open, and is free within 100ms of its end by
// the client: close, reset, QUIT, RESET, kill -9. Renewals come at their time (B17: rueidis#923). The connection is
// open for 8s here, for 30s if INTEGRATION_LONG is set.
func TestSessionLives(t *testing.T) {
	t.Parallel()
	p := startPair(t)
	open := 8 * time.Second
	if os.Getenv("INTEGRATION_LONG") != "" {
		open = 30 * time.Second
	}
	cli := launchCli(t, p.addr, "LOCK", "kill", "2s", "SESSION")
	hosts := map[string]*client{}
	ends := map[string]func(){"kill": cli.kill}
	for name, end := range map[string]func(*client){
		"fin":   func(c *client) { c.Close() },
		"rst":   (*client).reset,
		"quit":  func(c *client) { c.wantDo("+OK\r\n", "QUIT") },
		"reset": func(c *client) { c.wantDo("+RESET\r\n", "RESET") },
		"half":  func(c *client) { _ = c.CloseWrite() },
		"after": func(c *client) { c.send(encode("GET", "a") + encode("QUIT")) }, // with an upstream connection
	} {
		host := dial(t, p.addr)
		if name == "after" {
			host.wantDo(null2, "GET", "a")
		}
		host.lockSession(name, "2s")
		hosts[name], ends[name] = host, func() { end(host) }
	}
	p.wantHolders(t, "kill", 5)
	shortest := 2 * time.Second
	for start := time.Now(); time.Since(start) < open; {
		for key := range ends {
			p.far.wantDo(null2, "LOCK", key, "60s")
		}
		shortest = min(shortest, p.left(t, "fin")[2], p.left(t, "kill")[2])
		pauseBetween(t, 50*time.Millisecond)
	}
	t.Logf("a majority kept the key for at least %v more", shortest)
	if shortest < time.Second && slack == 1 {
		t.Errorf("a majority kept the key for only %v more; with a renewal each third of 2s it is 1.33s", shortest)
	}
	for key, end := range ends {
		wakes := p.far.later("LOCK", key, "60s", "WAIT", "0")
		dial(t, p.two.addr).waitWaiting(1)
		p.waitHeard(t, key)
		start := time.Now()
		end()
		token, at := wantToken(t, key, wakes)
		if took := at.Sub(start); took > 100*time.Millisecond*slack {
			t.Errorf("%s: free after %v", key, took)
		}
		p.far.unlock(key, token)
	}
	hosts["reset"].wantDo("+PONG\r\n", "PING")
	p.wantNoStray(t)
}

// TestSessionRunsOut: where the client did not end the connection the key runs out by its ttl, not earlier: the holder may
// still be at work.
func TestSessionRunsOut(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*pair){
		"proxy killed":  func(p *pair) { p.kill() },
		"drain":         func(p *pair) { p.signal(syscall.SIGTERM) },
		"upstream died": func(p *pair) { p.upstream.kill() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := startPair(t)
			host := dial(t, p.addr)
			host.wantDo("+OK\r\n", "SET", "a", "1") // makes the connection to the upstream
			host.lockSession("job", "2s")
			pauseBetween(t, 900*time.Millisecond) // a renewal has been made
			granted := p.far.later("LOCK", "job", "60s", "WAIT", "0")
			left, start := p.left(t, "job"), time.Now()
			if left[2] < 1200*time.Millisecond {
				t.Errorf("left before the end: %v, want a renewal at 0.67s", left)
			}
			end(p)
			host.wantClosed()
			host.Close()
			// The third to lose the key makes the majority that can grant it anew.
			_, at := wantToken(t, name, granted)
			if took := at.Sub(start); took < left[2]-20*time.Millisecond {
				t.Errorf("free after %v, before its ttl of %v", took, left[2])
			} else if took > 2*time.Second+300*time.Millisecond*slack {
				t.Errorf("free after %v, want by its ttl of 2s", took)
			}
		})
	}
}

// TestSessionWithoutUpstream: a connection that never needed the upstream outlives it, with its lock.
func TestSessionWithoutUpstream(t *testing.T) {
	t.Parallel()
	p := startPair(t)
	host := dial(t, p.addr)
	token := host.lockSession("job", "1s")
	p.upstream.kill()
	pauseBetween(t, 1500*time.Millisecond)
	p.far.wantDo(null2, "LOCK", "job", "60s")
	host.unlock("job", token)
	p.far.unlock("job", p.far.lock("job", "60s"))
}

// TestSessionLockDelay: after an end that was not QUIT the key stays closed for session-lock-delay, no longer and no less.
func TestSessionLockDelay(t *testing.T) {
	t.Parallel()
	p := startPair(t, "--session-lock-delay", "2s")
	for name, end := range map[string]func(*client){
		"fin":    func(c *client) { c.Close() },
		"rst":    (*client).reset,
		"reset":  func(c *client) { c.wantDo("+RESET\r\n", "RESET") },
		"quit":   func(c *client) { c.wantDo("+OK\r\n", "QUIT") },
		"unlock": func(c *client) { c.unlock("unlock", c.lockSession("unlock", "1s")) },
	} {
		for i, ttl := range []string{"1s", "30s"} { // under the delay, and over it
			key := fmt.Sprintf("%s-%s", name, ttl)
			if name == "unlock" {
				key = name
			}
			t.Run(key, func(t *testing.T) {
				t.Parallel()
				if name == "unlock" && i > 0 {
					return
				}
				host, other := dial(t, p.addr), dial(t, p.two.addr)
				if name != "unlock" {
					host.lockSession(key, ttl)
				}
				start := time.Now()
				end(host)
				took := other.wantFree(key, start)
				switch {
				case name == "quit" || name == "unlock":
					if took > 100*time.Millisecond*slack {
						t.Errorf("free after %v, want at once", took)
					}
				case took < 1990*time.Millisecond || took > 2100*time.Millisecond+200*time.Millisecond*slack:
					t.Errorf("free after %v, want 2s", took)
				}
			})
		}
	}
}

// TestNotSession: a lock without SESSION outlives its connection, and one with it is not freed by another connection's
// end, nor left behind by UNLOCK through another connection: pooled connections released locks early or kept orphans
// (B37: with_advisory_lock#43, #45).
func TestNotSession(t *testing.T) {
	t.Parallel()
	p := startPair(t)
	host, neighbour := dial(t, p.addr), dial(t, p.addr)
	plain := host.lock("plain", "60s")
	kept := host.lockSession("kept", "1s")
	neighbour.wantDo(null2, "LOCK", "kept", "60s", "SESSION") // refused: not this connection's
	stays := neighbour.lockSession("stays", "1s")
	neighbour.unlock("kept", kept)
	host.Close()
	p.far.wantDo(null2, "LOCK", "plain", "60s")
	token := p.far.lock("kept", "60s")
	pauseBetween(t, 1500*time.Millisecond)
	p.far.unlock("kept", token) // nothing of the old one renewed, nor released, the new one
	p.far.wantDo(null2, "LOCK", "stays", "60s")
	p.far.unlock("plain", plain)
	p.far.unlock("stays", stays) // through the other proxy: renewal finds out
	token = p.far.lock("stays", "2s")
	start := time.Now()
	neighbour.Close()
	pauseBetween(t, 200*time.Millisecond)
	p.desk.wantDo(null2, "LOCK", "stays", "60s")
	if took := p.desk.wantFree("stays", start); took < 1800*time.Millisecond || took > 2*time.Second+300*time.Millisecond*slack {
		t.Errorf("free after %v, want the ttl of 2s", took)
	}
	if reply := p.far.do("UNLOCK", "stays", token); !strings.HasPrefix(reply, ":0") {
		t.Errorf("UNLOCK after expiry: %q", reply)
	}
	p.wantNoStray(t)
}
