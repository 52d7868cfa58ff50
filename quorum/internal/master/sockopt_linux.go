package master

import (
	"errors"
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// setUserTimeout makes the kernel break the connection when bytes have stayed unacknowledged for
// d.
func setUserTimeout(c *net.TCPConn, d time.Duration) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var set error
	err = raw.Control(func(fd uintptr) {
		set = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(d.Milliseconds()))
	})
	return errors.Join(err, set)
}
