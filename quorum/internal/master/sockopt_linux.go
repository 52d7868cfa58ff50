package master

import (
	"errors"
	"net"
	"syscall"
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

// unreadOf returns how to ask whether bytes wait to be read from c; nil if c is no plain socket.
func unreadOf(c net.Conn) func() bool {
	socket, ok := c.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return nil
	}
	return func() (unread bool) {
		_ = raw.Control(func(fd uintptr) {
			ready := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
			n, _ := unix.Poll(ready, 0)
			unread = n > 0 && ready[0].Revents&unix.POLLIN != 0
		})
		return unread
	}
}
