//go:build !linux

package resp

import (
	"net"
	"time"
)

// watchPeer makes the kernel end a TCP connection whose other side has not been heard of for about timeout.
func watchPeer(c net.Conn, timeout time.Duration) error {
	t, ok := c.(*net.TCPConn)
	if !ok {
		return nil
	}
	step := max(time.Second, timeout/4)
	return t.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: step, Interval: step, Count: 3})
}
