package resp

import (
	"cmp"
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// watchPeer makes the kernel end a TCP connection whose other side has not been heard of for timeout, idle or not: it asks after half
// of it, and lets no sent byte go longer without an acknowledgement.
func watchPeer(c net.Conn, timeout time.Duration) error {
	raw, tcp := rawTCP(c)
	if !tcp {
		return nil
	}
	// The kernel counts in whole seconds.
	step := max(time.Second, (timeout / 4).Truncate(time.Second))
	idle := max(time.Second, (timeout / 2).Truncate(time.Second))
	count := max(1, int((timeout-idle)/step))
	options := []struct{ level, name, value int }{
		{unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1},
		{unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, int(idle / time.Second)},
		{unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, int(step / time.Second)},
		{unix.IPPROTO_TCP, unix.TCP_KEEPCNT, count},
		{unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(timeout.Milliseconds())},
	}
	var optErr error
	err := raw.Control(func(fd uintptr) {
		for _, o := range options {
			if optErr = unix.SetsockoptInt(int(fd), o.level, o.name, o.value); optErr != nil {
				return
			}
		}
	})
	return cmp.Or(err, optErr)
}
