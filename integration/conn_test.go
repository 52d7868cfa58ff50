package integration

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"
)

// conn is a raw client connection. Its methods return errors, so that any goroutine may use it.
type conn struct {
	*net.TCPConn
	br      *bufio.Reader
	timeout time.Duration // of each single step
}

func connect(addr string) (*conn, error) {
	nc, err := net.DialTimeout("tcp", addr, patience)
	if err != nil {
		return nil, err
	}
	return &conn{TCPConn: nc.(*net.TCPConn), br: bufio.NewReaderSize(nc, 64<<10), timeout: 2 * patience}, nil
}

// write sends raw bytes.
func (c *conn) write(raw string) error {
	if err := c.SetWriteDeadline(time.Now().Add(c.timeout)); err != nil {
		return err
	}
	_, err := io.WriteString(c.TCPConn, raw)
	return err
}

// read returns the next reply as raw bytes.
func (c *conn) read() (string, error) {
	if err := c.SetReadDeadline(time.Now().Add(c.timeout)); err != nil {
		return "", err
	}
	return readFrame(c.br)
}

// do sends a command and returns its reply, raw.
func (c *conn) do(args ...string) (string, error) {
	if err := c.write(encode(args...)); err != nil {
		return "", err
	}
	return c.read()
}

// rest reads until the other side closes, or is silent for the given time; closed tells which.
func (c *conn) rest(silence time.Duration) (text string, closed bool, err error) {
	var b strings.Builder
	buf := make([]byte, 64<<10)
	for {
		if err := c.SetReadDeadline(time.Now().Add(silence)); err != nil {
			return b.String(), false, err
		}
		n, err := c.br.Read(buf)
		b.Write(buf[:n])
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return b.String(), false, nil
		case err != nil: // a reset is a close, too
			return b.String(), true, nil
		}
	}
}

// reset ends the connection with a RST instead of a FIN.
func (c *conn) reset() {
	_ = c.SetLinger(0)
	c.Close()
}

// client is a conn for the goroutine of a test: what goes wrong fails the test.
type client struct {
	*conn
	t testing.TB
}

// dial connects to addr, and closes the connection when the test is over.
func dial(t testing.TB, addr string) *client {
	t.Helper()
	c, err := connect(addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return &client{conn: c, t: t}
}

// dial3 connects to addr and switches to RESP3.
func dial3(t testing.TB, addr string) *client {
	t.Helper()
	c := dial(t, addr)
	if hello := c.do("HELLO", "3"); !strings.HasPrefix(hello, "%") {
		t.Fatalf("HELLO 3: %q", hello)
	}
	return c
}

func (c *client) send(raw string) {
	c.t.Helper()
	if err := c.write(raw); err != nil {
		c.t.Fatalf("send %.60q: %v", raw, err)
	}
}

// frame returns the next reply.
func (c *client) frame() string {
	c.t.Helper()
	f, err := c.read()
	if err != nil {
		c.t.Fatalf("read a reply: %v (got %.200q)", err, f)
	}
	return f
}

// do sends a command and returns its reply.
func (c *client) do(args ...string) string {
	c.t.Helper()
	c.send(encode(args...))
	return c.frame()
}

// want reads as many bytes as raw has and compares.
func (c *client) want(raw string) {
	c.t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(c.timeout)); err != nil {
		c.t.Fatal(err)
	}
	got := make([]byte, len(raw))
	if n, err := io.ReadFull(c.br, got); err != nil || string(got) != raw {
		c.t.Fatalf("got %.300q (%v), want %.300q", got[:n], err, raw)
	}
}

// wantDo sends a command and compares its reply.
func (c *client) wantDo(reply string, args ...string) {
	c.t.Helper()
	if got := c.do(args...); got != reply {
		c.t.Fatalf("%.60q: got %.300q, want %.300q", args, got, reply)
	}
}

// wantClosed reads to the end of the connection, which must come without a further byte.
func (c *client) wantClosed() {
	c.t.Helper()
	if got, closed, err := c.rest(patience); err != nil || !closed || got != "" {
		c.t.Fatalf("got %.200q, closed %v (%v), want the connection closed", got, closed, err)
	}
}

// lock sends LOCK, which must be granted, and returns the token.
func (c *client) lock(key, ttl string) string {
	c.t.Helper()
	reply := c.do("LOCK", key, ttl)
	token := tokenOf(reply)
	if token == "" {
		c.t.Fatalf("LOCK %s: got %q, want a token", key, reply)
	}
	return token
}

// unlock sends UNLOCK, which must find the lock held.
func (c *client) unlock(key, token string) {
	c.t.Helper()
	c.wantDo(":1\r\n", "UNLOCK", key, token)
}

// tryLock is LOCK for any goroutine: a token, or "" and the reply that came instead.
func (c *conn) tryLock(key, ttl string) (token, reply string, err error) {
	reply, err = c.do("LOCK", key, ttl)
	if err != nil {
		return "", "", fmt.Errorf("lock %s: %w", key, err)
	}
	return tokenOf(reply), reply, nil
}
