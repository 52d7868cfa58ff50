package lab

import (
	"io"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Client is a Conn for the goroutine of a test. Its errors fail the test.
type Client struct {
	*Conn
	T testing.TB
}

// Dial connects to addr, and closes the connection when the test ends.
func Dial(t testing.TB, addr string) *Client {
	t.Helper()
	c, err := Connect(addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return &Client{Conn: c, T: t}
}

// Dial3 connects to addr and switches to RESP3.
func Dial3(t testing.TB, addr string) *Client {
	t.Helper()
	c := Dial(t, addr)
	if hello := c.Do("HELLO", "3"); !strings.HasPrefix(hello, "%") {
		t.Fatalf("HELLO 3: got %q, want a map", hello)
	}
	return c
}

// Send writes raw bytes. An error fails the test.
func (c *Client) Send(raw string) {
	c.T.Helper()
	if err := c.Put(raw); err != nil {
		c.T.Fatalf("send %.60q: %v", raw, err)
	}
}

// Frame returns the next reply.
func (c *Client) Frame() string {
	c.T.Helper()
	f, err := c.Next()
	if err != nil {
		c.T.Fatalf("read a reply: got %.200q, %v, want a frame", f, err)
	}
	return f
}

// Do sends a command and returns its reply.
func (c *Client) Do(args ...string) string {
	c.T.Helper()
	c.Send(Encode(args...))
	return c.Frame()
}

// Want reads len(raw) bytes and compares them with raw.
func (c *Client) Want(raw string) {
	c.T.Helper()
	if err := c.SetReadDeadline(time.Now().Add(c.Timeout)); err != nil {
		c.T.Fatal(err)
	}
	got := make([]byte, len(raw))
	if n, err := io.ReadFull(c.Reader, got); err != nil || string(got) != raw {
		c.T.Fatalf("got %.300q (%v), want %.300q", got[:n], err, raw)
	}
}

// WantDo sends a command and compares its reply.
func (c *Client) WantDo(reply string, args ...string) {
	c.T.Helper()
	if got := c.Do(args...); got != reply {
		c.T.Fatalf("%.60q: got %.300q, want %.300q", args, got, reply)
	}
}

// WantClosed waits until the other side has closed the connection, without another byte.
func (c *Client) WantClosed() {
	c.T.Helper()
	if got, closed, err := c.Rest(Patience); err != nil || !closed || got != "" {
		c.T.Fatalf("got %.200q, closed %v (%v), want the connection closed", got, closed, err)
	}
}

// Lock sends LOCK, which must be granted, and returns the token.
func (c *Client) Lock(key, ttl string) string {
	c.T.Helper()
	return c.WantToken("LOCK", key, ttl)
}

// Unlock sends UNLOCK, which must find the lock held. If the reply says that the proxy itself was
// late, because the machine is busy, Unlock repeats the UNLOCK. The first one may have released
// the lock by then.
func (c *Client) Unlock(key, token string) {
	c.T.Helper()
	reply := c.Do("UNLOCK", key, token)
	if Late(reply) {
		Poll(Patience, func() bool { reply = c.Do("UNLOCK", key, token); return !Late(reply) })
		if reply == ":0\r\n" {
			return
		}
	}
	if reply != ":1\r\n" {
		c.T.Fatalf("UNLOCK %.100q: got %q, want 1", key, reply)
	}
}

// LockSession sends LOCK ... SESSION, which must be granted, and returns the token.
func (c *Client) LockSession(key, ttl string) string {
	c.T.Helper()
	return c.WantToken("LOCK", key, ttl, "SESSION")
}

// WantToken sends a LOCK, which must be granted, and returns the token. If the reply says that the
// proxy itself was late, because the machine is busy, WantToken repeats the LOCK until that is
// granted. The key may count as held meanwhile, until the failed LOCK has been released.
func (c *Client) WantToken(args ...string) string {
	c.T.Helper()
	reply := c.Do(args...)
	if Late(reply) {
		Poll(Patience, func() bool {
			reply = c.Do(args...)
			return reply != Null2 && reply != Null3 && !Late(reply)
		})
	}
	token := TokenOf(reply)
	if token == "" {
		c.T.Fatalf("%.100q: got %q, want a token", args, reply)
	}
	return token
}

// WantFree asks for key with WAIT and gives the lock back. It returns the time of the grant.
func (c *Client) WantFree(key string) (at time.Time) {
	c.T.Helper()
	token, at := WantToken(c.T, key, c.Later("LOCK", key, "60s", "WAIT", "0"))
	c.Unlock(key, token)
	return at
}

// LockFull sends LOCK ... FULL with more options, which must be granted.
func (c *Client) LockFull(key, ttl string, options ...string) (token string, validity time.Duration) {
	c.T.Helper()
	reply := c.Do(append([]string{"LOCK", key, ttl, "FULL"}, options...)...)
	parts := Fields(reply)
	if !strings.HasPrefix(reply, "*3\r\n$57\r\n") || len(parts) != 3 {
		c.T.Fatalf("LOCK %s FULL: got %q, want token, fence and validity", key, reply)
	}
	ms, err := strconv.Atoi(parts[2])
	if err != nil {
		c.T.Fatal(err)
	}
	return parts[0], time.Duration(ms) * time.Millisecond
}

// WaitWaiting waits until exactly n clients wait in the proxy of c.
func (c *Client) WaitWaiting(n int) {
	c.T.Helper()
	WaitFor(c.T, strconv.Itoa(n)+" waiters", Patience, func() bool { return c.Counter("waiting") == n })
}

// Counter returns a number of LOCKPROXY INFO.
func (c *Client) Counter(name string) int {
	c.T.Helper()
	for line := range strings.Lines(Scalar(c.Do("LOCKPROXY", "INFO"))) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), name+":"); ok {
			n, err := strconv.Atoi(value)
			if err != nil {
				c.T.Fatal(err)
			}
			return n
		}
	}
	c.T.Fatalf("LOCKPROXY INFO: got no %s, want a number", name)
	return 0
}
