package netpoll

import (
	"errors"
	"io"
	"net"
	"sync/atomic"
	"syscall"
	"time"
)

// Conn is a TCP or Unix socket that Loops watches in place of the runtime's poller. It is a net.Conn
// that is safe for concurrent use by one reader and one writer. The reader is a goroutine in Read,
// ReadInto or Source.Receive, or a watch. A second reader gets an error, as does a second writer that
// would have to wait.
type Conn struct {
	loops         *Loops
	local, remote net.Addr
	next          *Conn // in the queue
	fd            int   // -1 when closed; changed under the mu of both gates, so either is enough to use it
	in, out       gate
	watch         watch
	thorough      atomic.Bool // a short read may have the end of input, or urgent data, behind it
	wants         atomic.Bool // a writer waits, or is about to wait, until the socket takes more
}

var _ net.Conn = (*Conn)(nil)

// readLocked reads once, and notes in in.ready whether there may be more. n is 0, without an error, if
// nothing is there.
func (c *Conn) readLocked(b []byte) (n int, err error) {
	for {
		n, errno := rawRead(c.fd, b)
		switch {
		case errno == syscall.EINTR:
			continue
		case errno == syscall.EAGAIN:
			c.in.ready = false
			return 0, nil
		case errno != 0:
			return 0, c.opError("read", errno)
		case n == 0:
			return 0, io.EOF
		}
		c.in.ready = n == len(b) || c.thorough.Load()
		return n, nil
	}
}

func (c *Conn) opError(op string, errno syscall.Errno) error {
	return &net.OpError{Op: op, Net: c.remote.Network(), Source: c.local, Addr: c.remote, Err: errno}
}

// tryLocked returns whether a reader may read now: nobody else reads, and something may be there.
func (c *Conn) tryLocked() (ok bool, err error) {
	if err := c.in.errLocked(); err != nil {
		return false, err
	}
	if c.in.state != gateIdle {
		return false, errTwoWait
	}
	return c.in.ready, nil
}

// Read implements net.Conn.
func (c *Conn) Read(b []byte) (n int, err error) {
	for len(b) > 0 {
		c.in.mu.Lock()
		ok, err := c.tryLocked()
		if ok {
			n, err = c.readLocked(b)
		}
		if n > 0 || err != nil {
			c.in.mu.Unlock()
			return n, err
		}
		if err := c.in.waitLocked(); err != nil {
			return 0, err
		}
	}
	return 0, nil
}

// ReadInto reads once, without waiting, and adds what came to x. n is 0, without an error, if nothing
// is there now; x then has no memory unless it has bytes.
func (c *Conn) ReadInto(x *Buffer) (n int, err error) {
	c.in.mu.Lock()
	defer c.in.mu.Unlock()
	ok, err := c.tryLocked()
	if ok {
		n, err = c.readLocked(x.Room())
		x.Grew(n)
	}
	if n == 0 {
		x.Release()
	}
	return n, err
}

// receive is Source.Receive.
func (c *Conn) receive(x *Buffer, use func() (stop bool)) error {
	for {
		n, err := c.ReadInto(x)
		switch {
		case err != nil:
			return err
		case n > 0:
			if use() {
				return nil
			}
			continue
		}
		c.in.mu.Lock()
		if c.in.ready || c.in.errLocked() != nil {
			c.in.mu.Unlock()
			continue
		}
		if err := c.in.waitLocked(); err != nil {
			return err
		}
	}
}

// Write implements net.Conn. It waits until the socket has taken all of b.
func (c *Conn) Write(b []byte) (n int, err error) {
	for {
		c.out.mu.Lock()
		m, err := c.writeLocked(b[n:])
		n += m
		if err != nil || n == len(b) {
			c.out.mu.Unlock()
			return n, err
		}
		if !c.wants.Swap(true) { // from here on the loop tells; the socket may have become ready before
			c.out.mu.Unlock()
			continue
		}
		if err := c.out.waitLocked(); err != nil {
			return n, err
		}
	}
}

// TryWrite writes as much of b as the socket takes at once. It never waits.
func (c *Conn) TryWrite(b []byte) (n int, err error) {
	c.out.mu.Lock()
	defer c.out.mu.Unlock()
	return c.writeLocked(b)
}

// writeLocked writes what can be written at once.
func (c *Conn) writeLocked(b []byte) (n int, err error) {
	if err := c.out.errLocked(); err != nil {
		return 0, err
	}
	for n < len(b) {
		m, errno := rawWrite(c.fd, b[n:])
		switch errno {
		case 0:
			n += m
		case syscall.EINTR:
		case syscall.EAGAIN:
			return n, nil
		default:
			return n, c.opError("write", errno)
		}
	}
	return n, nil
}

// took is called by the loop when the socket may take more.
func (c *Conn) took() {
	if !c.wants.Load() {
		return
	}
	c.out.mu.Lock()
	c.wants.Store(false)
	_, woke := c.out.endLocked()
	c.out.mu.Unlock()
	c.tell(nil, woke, nil)
}

// tell calls stopped, if there is one. woke: somebody was woken, for whom the loops give way.
func (c *Conn) tell(stopped func(err error), woke bool, err error) {
	if woke {
		c.loops.GiveWay()
	}
	if stopped != nil {
		stopped(err)
	}
}

// Close implements net.Conn. A watch ends with net.ErrClosed.
func (c *Conn) Close() error {
	c.in.mu.Lock()
	c.out.mu.Lock()
	if c.in.closed {
		c.out.mu.Unlock()
		c.in.mu.Unlock()
		return net.ErrClosed
	}
	stopped, woke := c.in.closeLocked()
	_, wokeWriter := c.out.closeLocked()
	c.loops.forget(c.fd)
	err := syscall.Close(c.fd)
	c.fd = -1
	c.out.mu.Unlock()
	c.in.mu.Unlock()
	c.tell(stopped, woke || wokeWriter, net.ErrClosed)
	return err
}

// CloseWrite sends the end of input to the other side.
func (c *Conn) CloseWrite() error {
	return c.control(func(fd uintptr) error { return syscall.Shutdown(int(fd), syscall.SHUT_WR) })
}

// control runs f with the descriptor.
func (c *Conn) control(f func(fd uintptr) error) error {
	c.out.mu.Lock()
	defer c.out.mu.Unlock()
	if c.out.closed {
		return net.ErrClosed
	}
	return f(uintptr(c.fd))
}

// LocalAddr implements net.Conn.
func (c *Conn) LocalAddr() net.Addr { return c.local }

// RemoteAddr implements net.Conn.
func (c *Conn) RemoteAddr() net.Addr { return c.remote }

// SetDeadline implements net.Conn.
func (c *Conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// SetReadDeadline implements net.Conn. A watch ends with os.ErrDeadlineExceeded when t has passed, at
// once if it has now.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.setDeadline(&c.in, t) }

// SetWriteDeadline implements net.Conn.
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.setDeadline(&c.out, t) }
