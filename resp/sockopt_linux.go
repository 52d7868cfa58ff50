package resp

import (
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// watchPeer makes the kernel end a TCP connection whose other side has not been heard of for timeout, idle or not: it asks after half
// of it, and lets no sent byte go longer without an acknowledgement.
func watchPeer(c net.Conn, timeout time.Duration) error {
	t, ok := c.(*net.TCPConn)
	if !ok {
		return nil
	}
	// The kernel counts in whole seconds.
	step := max(time.Second, (timeout / 4).Truncate(time.Second))
	idle := max(time.Second, (timeout / 2).Truncate(time.Second))
	count := max(1, int((timeout-idle)/step))
	if err := t.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: idle, Interval: step, Count: count}); err != nil {
		return err
	}
	raw, err := t.SyscallConn()
	if err != nil {
		return err
	}
	var optErr error
	if err := raw.Control(func(fd uintptr) {
		optErr = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(timeout.Milliseconds()))
	}); err != nil {
		return err
	}
	return optErr
}
