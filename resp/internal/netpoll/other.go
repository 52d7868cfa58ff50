//go:build !linux

package netpoll

import (
	"errors"
	"net"
	"time"
)

// Pollers watch plain sockets on Linux only. Here Adopt refuses every connection.
type Pollers struct{}

// NewPollers returns loops without a socket.
func NewPollers() *Pollers { return &Pollers{} }

// Adopt refuses c, so no method of Socket is ever called.
func (*Pollers) Adopt(c net.Conn) (*Socket, bool) { return nil, false }
func (*Pollers) AfterBatch(func())                {}
func (*Pollers) Yield()                           {}
func (*Pollers) Close()                           {}

// Socket is a socket that Pollers watches. There is none on this system.
type Socket struct{ net.Conn }

func (*Socket) ReadInto(*Buffer) (n int, err error) { return 0, errors.ErrUnsupported }
func (*Socket) TryRead(*Buffer) (n int, err error)  { return 0, errors.ErrUnsupported }
func (*Socket) TryWrite([]byte) (n int, err error)  { return 0, errors.ErrUnsupported }
func (*Socket) Requeue()                            {}
func (*Socket) Watch(_ *Buffer, _ func() (stop bool), ended func(err error)) {
	ended(errors.ErrUnsupported)
}

func receive(*Socket, *Buffer, func() (stop bool)) error { return errors.ErrUnsupported }

// Unread is false: no loop reads sockets on this system.
func Unread(net.Conn) bool { return false }

// SetLinger is net.TCPConn's, for the socket below c.
func SetLinger(c net.Conn, sec int) error {
	t, ok := Underlying(c).(*net.TCPConn)
	if !ok {
		return errors.ErrUnsupported
	}
	return t.SetLinger(sec)
}

// Refused is false: this system is not asked.
func Refused(net.Conn) bool { return false }

// Queued returns zeros: this system is not asked. Only a write that blocks shows a slow client
// then.
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
