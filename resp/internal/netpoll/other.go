//go:build !linux

package netpoll

import (
	"errors"
	"net"
	"time"
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

func (c *Conn) receive(x *Buffer, use func() (stop bool)) error { return errors.ErrUnsupported }

// Refused is false: this system is not asked.
func Refused(net.Conn) bool { return false }

// Queued returns zeros: this system is not asked. Only a write that blocks shows a slow client then.
func Queued(net.Conn) (queued int, taken uint64) { return 0, 0 }

// WatchPeer makes the kernel end a TCP connection whose other side is silent for about timeout.
func WatchPeer(c net.Conn, timeout time.Duration) error {
	t, ok := Underlying(c).(*net.TCPConn)
	if !ok {
		return nil
	}
	step := max(time.Second, timeout/4)
	return t.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: step, Interval: step, Count: 3})
}
