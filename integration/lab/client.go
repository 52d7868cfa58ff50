package lab

import (
	"io"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Client is a conn for the goroutine of a test: what goes wrong fails the test.
type Client struct {
	*Conn
	T testing.TB
}

// Dial connects to addr, and closes the connection when the test is over.
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
		t.Fatalf("HELLO 3: %q", hello)
	}
	return c
}

// Send writes bytes as they are, and fails the test where that is not possible.
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
		c.T.Fatalf("read a reply: %v (got %.200q)", err, f)
	}
	return f
}

// Do sends a command and returns its reply.
func (c *Client) Do(args ...string) string {
	c.T.Helper()
	c.Send(Encode(args...))
	return c.Frame()
}

// Want reads as many bytes as raw has and compares.
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

// WantClosed reads to the end of the connection, which must come without a further byte.
func (c *Client) WantClosed() {
	c.T.Helper()
	if got, closed, err := c.Rest(Patience); err != nil || !closed || got != "" {
		c.T.Fatalf("got %.200q, closed %v (%v), want the connection closed", got, closed, err)
	}
}

// Lock sends LOCK, which must be granted, and returns the token.
func (c *Client) Lock(key, ttl string) string {
	c.T.Helper()
	reply := c.Do("LOCK", key, ttl)
	token := TokenOf(reply)
	if token == "" {
		c.T.Fatalf("LOCK %s: got %q, want a token", key, reply)
	}
	return token
}

// Unlock sends UNLOCK, which must find the lock held.
func (c *Client) Unlock(key, token string) {
	c.T.Helper()
	c.WantDo(":1\r\n", "UNLOCK", key, token)
}

// LockSession sends LOCK ... SESSION, which must be granted, and returns the token.
func (c *Client) LockSession(key, ttl string) string {
	c.T.Helper()
	reply := c.Do("LOCK", key, ttl, "SESSION")
	token := TokenOf(reply)
	if token == "" {
		c.T.Fatalf("LOCK %s SESSION: %q, want a token", key, reply)
	}
	return token
}

// WantToken sends a LOCK, which must be granted, and returns the token.
func (c *Client) WantToken(args ...string) string {
	c.T.Helper()
	reply := c.Do(args...)
	token := TokenOf(reply)
	if token == "" {
		c.T.Fatalf("%q: %q, want a token", args, reply)
	}
	return token
}

// WantFree asks for key with WAIT, and returns how long after start it was granted. It gives the
// lock back.
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
		c.T.Fatalf("LOCK %s FULL: %q", key, reply)
	}
	ms, err := strconv.Atoi(parts[2])
	if err != nil {
		c.T.Fatal(err)
	}
	return parts[0], time.Duration(ms) * time.Millisecond
}

// WaitWaiting returns when n clients wait in the proxy that c is connected to.
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
	c.T.Fatalf("no %s in LOCKPROXY INFO", name)
	return 0
}
