package resp

import (
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// deliveryTime bounds how long the other side's kernel may take to acknowledge, or to refuse, what was written to it.
const deliveryTime = 200 * time.Millisecond

// refused tells whether what was last written to a TCP connection was refused by the other side: it had closed the connection, and not
// only its sending half. It waits until that is known, at most deliveryTime.
func refused(c net.Conn) bool {
	raw, tcp := rawTCP(c)
	if !tcp {
		return false
	}
	for start := time.Now(); ; time.Sleep(time.Millisecond) {
		unacked, dead := 0, false
		err := raw.Control(func(fd uintptr) {
			unacked, _ = unix.IoctlGetInt(int(fd), unix.SIOCOUTQ)
			poll := []unix.PollFd{{Fd: int32(fd)}}
			unix.Poll(poll, 0)
			dead = poll[0].Revents&(unix.POLLERR|unix.POLLHUP) != 0
		})
		switch {
		case err != nil || unacked == 0:
			return false
		case dead:
			return true
		case time.Since(start) >= deliveryTime:
			return false
		}
	}
}
