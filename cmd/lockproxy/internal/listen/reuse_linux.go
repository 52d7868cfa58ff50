package listen

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// reusePort lets other processes of this user listen on the same address (SO_REUSEPORT).
func reusePort(_, _ string, socket syscall.RawConn) error {
	var err error
	if controlErr := socket.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET,
			unix.SO_REUSEPORT, 1)
	}); controlErr != nil {
		return controlErr
	}
	return err
}
