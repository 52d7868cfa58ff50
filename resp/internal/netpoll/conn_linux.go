package netpoll

import (
	"cmp"
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Socket is a TCP or Unix socket that Pollers watches in place of the runtime's poller. It is a
// net.Conn that is safe for concurrent use by one reader and one writer. The reader is a goroutine
// in Read, ReadInto, TryRead or Receive, or a watch. A second reader gets an error, and so does a
// second writer that would have to wait.
type Socket struct {
	loops         *Pollers
	local, remote net.Addr
	fd            int // -1 when closed; changed under the mu of both gates, so either is enough to use it
	in, out       gate
	watch         watch
	untilEmpty    atomic.Bool // a short read may be followed by the end of input, or by urgent data
	wants         atomic.Bool // a writer waits, or is about to wait, until the socket takes more
}

var _ net.Conn = (*Socket)(nil)

// readLocked reads once if something may be there, and notes in in.ready whether there may be
// more. n is 0, without an error, if no bytes are there.
func (c *Socket) readLocked(b []byte) (n int, err error) {
	for c.in.err == nil && c.in.ready {
		n, errno := rawIO(syscall.SYS_READ, c.fd, b)
		switch {
		case errno == syscall.EINTR:
		case errno == syscall.EAGAIN:
			c.in.ready = false
		case errno != 0:
			return 0, opError(c, "read", errno)
		case n == 0:
			return 0, io.EOF
		default:
			c.in.ready = n == len(b) || c.untilEmpty.Load()
			return n, nil
		}
	}
	return 0, c.in.err
}

// rawIO is a read or write of a socket that never blocks, so the scheduler need not know of it.
// With the race detector it calls package syscall.
func rawIO(trap uintptr, fd int, b []byte) (int, syscall.Errno) {
	if !raceDetector {
		n, _, errno := syscall.RawSyscall(trap, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
		return int(n), errno
	}
	do := syscall.Read
	if trap == syscall.SYS_WRITE {
		do = syscall.Write
	}
	n, err := do(fd, b)
	errno, _ := err.(syscall.Errno)
	return n, errno
}

func opError(c *Socket, op string, errno syscall.Errno) error {
	return &net.OpError{Op: op, Net: c.remote.Network(), Source: c.local, Addr: c.remote, Err: errno}
}

// Read implements net.Conn.
func (c *Socket) Read(b []byte) (n int, err error) {
	if len(b) == 0 {
		return 0, nil
	}
	return c.await(func() (int, error) {
		c.in.mu.Lock()
		defer c.in.mu.Unlock()
		if err := c.in.freeLocked(); err != nil {
			return 0, err
		}
		return c.readLocked(b)
	})
}

// await tries until something is read.
func (c *Socket) await(try func() (n int, err error)) (n int, err error) {
	for n == 0 && err == nil {
		if n, err = try(); n == 0 && err == nil {
			c.in.mu.Lock()
			err = c.in.waitUnlock()
		}
	}
	return n, err
}

// ReadInto reads once, without waiting, and adds the bytes to x. n is 0, without an error, if none
// are there now; x then has no memory unless it has bytes.
func (c *Socket) ReadInto(x *Buffer) (n int, err error) {
	defer x.Release()
	c.in.mu.Lock()
	defer c.in.mu.Unlock()
	return c.readIntoLocked(x)
}

// TryRead is ReadInto for bytes that have come though no loop has noticed them yet. It reads also
// if the read deadline has passed.
func (c *Socket) TryRead(x *Buffer) (n int, err error) {
	defer x.Release()
	c.in.mu.Lock()
	defer c.in.mu.Unlock()
	if passed := c.in.err; passed == os.ErrDeadlineExceeded {
		c.in.err = nil
		defer func() { c.in.err = passed }()
	}
	c.in.ready = true
	return c.readIntoLocked(x)
}

func (c *Socket) readIntoLocked(x *Buffer) (n int, err error) {
	if err := c.in.freeLocked(); err != nil || !c.in.ready { // no memory without a read
		return 0, err
	}
	n, err = c.readLocked(x.Room())
	x.Grew(n)
	return n, err
}

// receive is Receive for a Socket.
func receive(c *Socket, x *Buffer, received func() (stop bool)) error {
	defer x.Release()
	for {
		if _, err := c.await(func() (int, error) { return c.ReadInto(x) }); err != nil {
			return err
		}
		if received() {
			return nil
		}
	}
}

// Write implements net.Conn. It waits until the socket has taken all of b.
func (c *Socket) Write(b []byte) (n int, err error) {
	for {
		c.out.mu.Lock()
		m, err := c.writeLocked(b[n:])
		n += m
		if err != nil || n == len(b) {
			c.out.mu.Unlock()
			return n, err
		}
		if !c.wants.Swap(true) { // from here on the loop wakes the writer; the socket may have become ready before
			c.out.mu.Unlock()
			continue
		}
		if err := c.out.waitUnlock(); err != nil {
			return n, err
		}
	}
}

// TryWrite writes as much of b as the socket takes at once. It never waits.
func (c *Socket) TryWrite(b []byte) (n int, err error) {
	c.out.mu.Lock()
	defer c.out.mu.Unlock()
	return c.writeLocked(b)
}

// writeLocked writes what can be written at once.
func (c *Socket) writeLocked(b []byte) (n int, err error) {
	for c.out.err == nil && n < len(b) {
		m, errno := rawIO(syscall.SYS_WRITE, c.fd, b[n:])
		switch errno {
		case 0:
			n += m
		case syscall.EINTR:
		case syscall.EAGAIN:
			return n, nil
		default:
			return n, opError(c, "write", errno)
		}
	}
	return n, c.out.err
}

// Close implements net.Conn. A watch ends with net.ErrClosed.
func (c *Socket) Close() error {
	c.in.mu.Lock()
	c.out.mu.Lock()
	if c.fd < 0 {
		c.out.mu.Unlock()
		c.in.mu.Unlock()
		return net.ErrClosed
	}
	c.loops.forget(c.fd)
	err := syscall.Close(c.fd)
	c.fd = -1
	c.failUnlock(&c.out, net.ErrClosed)
	c.failUnlock(&c.in, net.ErrClosed)
	return err
}

// CloseWrite sends the end of input to the other side.
func (c *Socket) CloseWrite() (err error) {
	closed := c.control(func(fd int) { err = syscall.Shutdown(fd, syscall.SHUT_WR) })
	return cmp.Or(closed, err)
}

// control calls f with the descriptor.
func (c *Socket) control(f func(fd int)) error {
	c.out.mu.Lock()
	defer c.out.mu.Unlock()
	if c.fd < 0 {
		return net.ErrClosed
	}
	f(c.fd)
	return nil
}

// LocalAddr implements net.Conn.
func (c *Socket) LocalAddr() net.Addr { return c.local }

// RemoteAddr implements net.Conn.
func (c *Socket) RemoteAddr() net.Addr { return c.remote }

// SetDeadline implements net.Conn.
func (c *Socket) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// SetReadDeadline implements net.Conn. A watch ends with os.ErrDeadlineExceeded when t has passed,
// at once if it has now.
func (c *Socket) SetReadDeadline(t time.Time) error { return c.setDeadline(&c.in, t) }

// SetWriteDeadline implements net.Conn.
func (c *Socket) SetWriteDeadline(t time.Time) error { return c.setDeadline(&c.out, t) }

// dup returns a second descriptor of a socket that package net opened.
func dup(c net.Conn) (fd int, err error) {
	if _, plain := c.(syscall.Conn); !plain { // as a TLS connection, whose socket has other bytes
		return -1, syscall.ENOTSOCK
	}
	closed := control(c, func(old int) { fd, err = unix.FcntlInt(uintptr(old), unix.F_DUPFD_CLOEXEC, 0) })
	return fd, cmp.Or(closed, err)
}
