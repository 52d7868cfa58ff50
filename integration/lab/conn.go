package lab

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"
)

// Conn is a raw client connection. Its methods return errors, so that any goroutine may use it.
type Conn struct {
	*net.TCPConn
	Reader  *bufio.Reader
	Timeout time.Duration // of each single step
}

// Connect opens a connection. Each of its steps may take twice Patience; Timeout changes that.
func Connect(addr string) (*Conn, error) {
	nc, err := dialer(addr)("tcp", addr)
	if err != nil {
		return nil, err
	}
	return &Conn{TCPConn: nc.(*net.TCPConn), Reader: bufio.NewReaderSize(nc, 64<<10), Timeout: 2 * Patience}, nil
}

// Put sends raw bytes.
func (c *Conn) Put(raw string) error {
	if err := c.SetWriteDeadline(time.Now().Add(c.Timeout)); err != nil {
		return err
	}
	_, err := io.WriteString(c.TCPConn, raw)
	return err
}

// Next returns the next reply as raw bytes.
func (c *Conn) Next() (string, error) {
	if err := c.SetReadDeadline(time.Now().Add(c.Timeout)); err != nil {
		return "", err
	}
	return ReadFrame(c.Reader)
}

// Ask sends a command and returns its reply, raw.
func (c *Conn) Ask(args ...string) (string, error) {
	if err := c.Put(Encode(args...)); err != nil {
		return "", err
	}
	return c.Next()
}

// Rest reads until the other side closes, or is silent for the given time; closed tells which.
func (c *Conn) Rest(silence time.Duration) (text string, closed bool, err error) {
	var b strings.Builder
	buf := make([]byte, 64<<10)
	for {
		if err := c.SetReadDeadline(time.Now().Add(silence)); err != nil {
			return b.String(), false, err
		}
		n, err := c.Reader.Read(buf)
		b.Write(buf[:n])
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return b.String(), false, nil
		case err != nil: // a reset is a close, too
			return b.String(), true, nil
		}
	}
}

// Reset ends the connection with a RST instead of a FIN.
func (c *Conn) Reset() {
	_ = c.SetLinger(0)
	c.Close()
}

// TryLock is LOCK for any goroutine: a token, or "" and the reply that came instead.
func (c *Conn) TryLock(key, ttl string) (token, reply string, err error) {
	reply, err = c.Ask("LOCK", key, ttl)
	if err != nil {
		return "", "", fmt.Errorf("lock %s: %w", key, err)
	}
	return TokenOf(reply), reply, nil
}
