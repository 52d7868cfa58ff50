//go:build !linux

package netpoll

import (
	"net"
	"time"
)

// HungUp is false: this system is not asked.
func HungUp(net.Conn) bool { return false }

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
