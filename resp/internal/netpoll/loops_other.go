//go:build !linux

package netpoll

import (
	"errors"
	"net"
	"syscall"
)

// Loops watch plain sockets on Linux only. Here Adopt refuses every connection.
type Loops struct{}

// NewLoops returns loops without a socket.
func NewLoops(busy func() bool) *Loops { return &Loops{} }

// Adopt refuses c.
func (*Loops) Adopt(c net.Conn) (*Conn, bool) { return nil, false }

// GiveWay does nothing.
func (*Loops) GiveWay() {}

// Close does nothing.
func (*Loops) Close() {}

// Conn is a socket that Loops watches. There is none on this system.
type Conn struct{ net.Conn }

// Watch calls stopped.
func (c *Conn) Watch(buf *Buffer, use func() (stop bool), stopped func(err error)) {
	stopped(errors.ErrUnsupported)
}

// ReadInto is not supported.
func (c *Conn) ReadInto(x *Buffer) (n int, err error) { return 0, errors.ErrUnsupported }

// TryWrite is not supported.
func (c *Conn) TryWrite(b []byte) (n int, err error) { return 0, errors.ErrUnsupported }

// CloseWrite is not supported.
func (c *Conn) CloseWrite() error { return errors.ErrUnsupported }

// SyscallConn is not supported.
func (c *Conn) SyscallConn() (syscall.RawConn, error) { return nil, errors.ErrUnsupported }

func (c *Conn) receive(x *Buffer, use func() (stop bool)) error { return errors.ErrUnsupported }
