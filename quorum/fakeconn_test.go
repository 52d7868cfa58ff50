package quorum

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// memPipe is two ends of an in-memory connection with unbounded buffers. Blocking in it is durable for
// testing/synctest.
func memPipe() (client, server *memConn) {
	a, b := newHalf(), newHalf()
	return &memConn{in: a, out: b}, &memConn{in: b, out: a}
}

// half carries bytes one way. It has one reader.
type half struct {
	mu     sync.Mutex
	buf    []byte
	closed bool // by either end
	wake   chan struct{}
}

func newHalf() *half { return &half{wake: make(chan struct{}, 1)} }

func (h *half) poke() {
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

func (h *half) shut() {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	h.poke()
}

type memConn struct {
	in, out *half
	mu      sync.Mutex
	until   time.Time
	local   bool // closed by this end
}

func (c *memConn) Read(p []byte) (int, error) {
	for {
		c.mu.Lock()
		until, local := c.until, c.local
		c.mu.Unlock()
		if local {
			return 0, net.ErrClosed
		}
		c.in.mu.Lock()
		n := copy(p, c.in.buf)
		c.in.buf = c.in.buf[n:]
		closed := c.in.closed
		c.in.mu.Unlock()
		if n > 0 {
			return n, nil
		}
		if closed {
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

func (c *memConn) Write(p []byte) (int, error) {
	c.out.mu.Lock()
	if c.out.closed {
		c.out.mu.Unlock()
		return 0, syscall.EPIPE
	}
	c.out.buf = append(c.out.buf, p...)
	c.out.mu.Unlock()
	c.out.poke()
	return len(p), nil
}

// Close leaves what was written to be read by the other end, as a late packet would be.
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
	defer c.mu.Unlock()
	c.until = t
	return nil
}

func (c *memConn) SetReadDeadline(t time.Time) error { return c.SetDeadline(t) }
func (c *memConn) SetWriteDeadline(time.Time) error  { return nil }
func (c *memConn) LocalAddr() net.Addr               { return &net.TCPAddr{} }
func (c *memConn) RemoteAddr() net.Addr              { return &net.TCPAddr{} }
