package resp

import (
	"net"

	"golang.org/x/sys/unix"
)

// takenBy tells how many written bytes are still in the socket, and for TCP how many the other side has ever acknowledged.
func takenBy(c net.Conn) (queued int, taken uint64) {
	raw, ok := rawSocket(c)
	if !ok {
		return 0, 0
	}
	_, tcp := rawTCP(c)
	raw.Control(func(fd uintptr) {
		queued, _ = unix.IoctlGetInt(int(fd), unix.SIOCOUTQ)
		if queued == 0 || !tcp {
			return
		}
		if info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
			taken = info.Bytes_acked
		}
	})
	return queued, taken
}
