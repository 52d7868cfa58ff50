package resp

import (
	"errors"
	"io"
	"net"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// sock is a TCP or Unix socket that a loop watches, in place of the runtime's poller. As a net.Conn it may be used concurrently, though
// by one reader and one writer at a time.
type sock struct {
	loop          *loop
	local, remote net.Addr
	fd            int // -1 when closed; changed under the mu of both gates, so either is enough to use it
	in, out       gate
	thorough      atomic.Bool // a short read does not show that nothing is left: it may be the end of input that is
	wants         atomic.Bool // somebody waits, or is about to wait, until the socket takes more
	task          task
}

var _ carried = (*sock)(nil)

// readLocked reads once, and notes in in.ready whether there may be more. n is 0, without an error, if nothing is there.
func (k *sock) readLocked(b []byte) (n int, err error) {
	for {
		n, errno := rawRead(k.fd, b)
		switch {
		case errno == syscall.EINTR:
			continue
		case errno == syscall.EAGAIN:
			k.in.ready = false
			return 0, nil
		case errno != 0:
			return 0, k.opError("read", errno)
		case n == 0:
			return 0, io.EOF
		}
		k.in.ready = n == len(b) || k.thorough.Load()
		return n, nil
	}
}

func (k *sock) opError(op string, errno syscall.Errno) error {
	return &net.OpError{Op: op, Net: k.remote.Network(), Source: k.local, Addr: k.remote, Err: errno}
}

// Read implements net.Conn.
func (k *sock) Read(b []byte) (n int, err error) {
	for {
		k.in.mu.Lock()
		if err := k.in.errLocked(); err != nil {
			k.in.mu.Unlock()
			return 0, err
		}
		if !k.in.ready {
			if err := k.in.waitLocked(gateWaiting); err != nil {
				return 0, err
			}
			continue
		}
		n, err = k.readLocked(b)
		k.in.mu.Unlock()
		if n > 0 || err != nil {
			return n, err
		}
	}
}

// receive implements carried.
func (k *sock) receive(x *inbox, use func(mayBlock bool) (stop bool), onLoop bool) error {
	defer x.release()
	for {
		k.in.mu.Lock()
		if err := k.in.errLocked(); err != nil {
			k.in.mu.Unlock()
			return err
		}
		switch {
		case !k.in.ready && onLoop:
			return k.carryLocked(x, use)
		case !k.in.ready:
			x.release()
			if err := k.in.waitLocked(gateWaiting); err != nil {
				return err
			}
			continue
		}
		n, err := k.readLocked(x.room())
		k.in.mu.Unlock()
		if err != nil {
			return err
		}
		x.w += n
		if n > 0 && use(true) {
			return nil
		}
	}
}

// Write implements net.Conn.
func (k *sock) Write(b []byte) (n int, err error) {
	for {
		k.out.mu.Lock()
		m, err := k.writeLocked(b[n:])
		n += m
		if err != nil || n == len(b) {
			k.out.mu.Unlock()
			return n, err
		}
		if !k.wants.Swap(true) { // from here on the loop tells; it may have become ready before
			k.out.mu.Unlock()
			continue
		}
		if err := k.out.waitLocked(gateWaiting); err != nil {
			return n, err
		}
	}
}

// tryWrite implements carried.
func (k *sock) tryWrite(b []byte) (n int, err error) {
	k.out.mu.Lock()
	defer k.out.mu.Unlock()
	return k.writeLocked(b)
}

// writeLocked writes what can be written at once.
func (k *sock) writeLocked(b []byte) (n int, err error) {
	if err := k.out.errLocked(); err != nil {
		return 0, err
	}
	for n < len(b) {
		m, errno := rawWrite(k.fd, b[n:])
		switch errno {
		case 0:
			n += m
		case syscall.EINTR:
		case syscall.EAGAIN:
			return n, nil
		default:
			return n, k.opError("write", errno)
		}
	}
	return n, nil
}

// took is called by the loop when the socket may take more.
func (k *sock) took() {
	if !k.wants.Load() {
		return
	}
	k.out.mu.Lock()
	defer k.out.mu.Unlock()
	k.wants.Store(false)
	if k.out.state == gateWaiting {
		k.loop.wakes()
	}
	k.out.stopLocked(nil)
}

// Close implements net.Conn.
func (k *sock) Close() error {
	k.in.mu.Lock()
	defer k.in.mu.Unlock()
	k.out.mu.Lock()
	defer k.out.mu.Unlock()
	if k.in.closed {
		return net.ErrClosed
	}
	k.in.closeLocked()
	k.out.closeLocked()
	k.loop.forget(k.fd)
	err := syscall.Close(k.fd)
	k.fd = -1
	return err
}

// CloseWrite sends the end of input to the other side.
func (k *sock) CloseWrite() error {
	return k.control(func(fd uintptr) error { return syscall.Shutdown(int(fd), syscall.SHUT_WR) })
}

// control runs f with the descriptor.
func (k *sock) control(f func(fd uintptr) error) error {
	k.out.mu.Lock()
	defer k.out.mu.Unlock()
	if k.out.closed {
		return net.ErrClosed
	}
	return f(uintptr(k.fd))
}

// LocalAddr implements net.Conn.
func (k *sock) LocalAddr() net.Addr { return k.local }

// RemoteAddr implements net.Conn.
func (k *sock) RemoteAddr() net.Addr { return k.remote }

// SetDeadline implements net.Conn.
func (k *sock) SetDeadline(t time.Time) error {
	k.in.setDeadline(t)
	k.out.setDeadline(t)
	return nil
}

// SetReadDeadline implements net.Conn.
func (k *sock) SetReadDeadline(t time.Time) error {
	k.in.setDeadline(t)
	return nil
}

// SetWriteDeadline implements net.Conn.
func (k *sock) SetWriteDeadline(t time.Time) error {
	k.out.setDeadline(t)
	return nil
}

// SyscallConn implements syscall.Conn, for Control.
func (k *sock) SyscallConn() (syscall.RawConn, error) { return rawSock{k}, nil }

// rawSock is the socket as a syscall.RawConn.
type rawSock struct{ k *sock }

// Control implements syscall.RawConn.
func (r rawSock) Control(f func(fd uintptr)) error {
	return r.k.control(func(fd uintptr) error {
		f(fd)
		return nil
	})
}

// Read implements syscall.RawConn. It is not there: the bytes belong to the sock.
func (r rawSock) Read(func(fd uintptr) bool) error { return errors.ErrUnsupported }

// Write implements syscall.RawConn. It is not there, as Read.
func (r rawSock) Write(func(fd uintptr) bool) error { return errors.ErrUnsupported }

// dup returns a second descriptor of a socket that package net opened.
func dup(c net.Conn) (fd int, ok bool) {
	opened, isConn := c.(syscall.Conn)
	if !isConn {
		return -1, false
	}
	raw, err := opened.SyscallConn()
	if err != nil {
		return -1, false
	}
	err = raw.Control(func(old uintptr) {
		fd, err = unix.FcntlInt(old, unix.F_DUPFD_CLOEXEC, 0)
		ok = err == nil
	})
	return fd, ok && err == nil
}
