package netpoll

import (
	"errors"
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

func (c *Conn) setDeadline(g *gate, t time.Time) error {
	g.mu.Lock()
	if g.closed {
		g.mu.Unlock()
		return net.ErrClosed
	}
	stopped, woke := g.setDeadlineLocked(t)
	g.mu.Unlock()
	c.tell(stopped, woke, os.ErrDeadlineExceeded)
	return nil
}

// SyscallConn implements syscall.Conn, for Control only: the bytes belong to the Conn.
func (c *Conn) SyscallConn() (syscall.RawConn, error) { return rawConn{c}, nil }

// rawConn is a Conn as a syscall.RawConn.
type rawConn struct{ c *Conn }

// Control implements syscall.RawConn.
func (r rawConn) Control(f func(fd uintptr)) error {
	return r.c.control(func(fd uintptr) error {
		f(fd)
		return nil
	})
}

// Read implements syscall.RawConn. It is not supported.
func (r rawConn) Read(func(fd uintptr) bool) error { return errors.ErrUnsupported }

// Write implements syscall.RawConn. It is not supported.
func (r rawConn) Write(func(fd uintptr) bool) error { return errors.ErrUnsupported }

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
