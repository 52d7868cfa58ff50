package fake

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// pipe returns the two ends of an in-memory connection with unbounded buffers. Blocking in it is
// durable for testing/synctest.
func pipe() (client, server *memConn) {
	a, b := newHalf(), newHalf()
	return &memConn{in: a, out: b}, &memConn{in: b, out: a}
}

// half carries bytes one way. It has one reader.
type half struct {
	mu     sync.Mutex
	buf    []byte
	closed bool          // by either end
	wake   chan struct{} // holds a value when something has changed for the reader
}

func newHalf() *half { return &half{wake: make(chan struct{}, 1)} }

func (h *half) signal() {
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

func (h *half) shut() {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	h.signal()
}

// memConn is one end of a pipe.
type memConn struct {
	in, out *half
	mu      sync.Mutex
	until   time.Time // read deadline
	local   bool      // this end has been closed
}

var _ net.Conn = (*memConn)(nil)

func (c *memConn) Read(p []byte) (int, error) {
	for {
		c.mu.Lock()
		until, local := c.until, c.local
		c.mu.Unlock()
		if local {
			return 0, net.ErrClosed
		}
		if n, closed := c.in.take(p); n > 0 {
			return n, nil
		} else if closed {
			return 0, io.EOF
		}
		if until.IsZero() {
			<-c.in.wake
			continue
		}
		t := time.NewTimer(time.Until(until))
		select {
		case <-c.in.wake:
		case <-t.C:
			return 0, os.ErrDeadlineExceeded
		}
		t.Stop()
	}
}

func (h *half) take(p []byte) (n int, closed bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n = copy(p, h.buf)
	h.buf = h.buf[n:]
	return n, h.closed
}

func (c *memConn) Write(p []byte) (int, error) {
	c.out.mu.Lock()
	if c.out.closed {
		c.out.mu.Unlock()
		return 0, syscall.EPIPE
	}
	c.out.buf = append(c.out.buf, p...)
	c.out.mu.Unlock()
	c.out.signal()
	return len(p), nil
}

// Close lets the other end read the bytes that were written before, like a late packet.
func (c *memConn) Close() error {
	c.mu.Lock()
	c.local = true
	c.mu.Unlock()
	c.in.shut()
	c.out.shut()
	return nil
}

func (c *memConn) SetDeadline(t time.Time) error {
	c.mu.Lock()
	c.until = t
	c.mu.Unlock()
	c.in.signal() // a Read that waits takes the new one
	return nil
}

func (c *memConn) SetReadDeadline(t time.Time) error { return c.SetDeadline(t) }
func (c *memConn) SetWriteDeadline(time.Time) error  { return nil }
func (c *memConn) LocalAddr() net.Addr               { return &net.TCPAddr{} }
func (c *memConn) RemoteAddr() net.Addr              { return &net.TCPAddr{} }
