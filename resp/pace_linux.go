package resp

import (
	"net"

	"golang.org/x/sys/unix"
)

// takenBy tells how many written bytes are still in the socket, and for TCP how many the other side has ever acknowledged.
func takenBy(c net.Conn) (queued int, taken uint64) {
	if secure, ok := c.(interface{ NetConn() net.Conn }); ok { // TLS
		c = secure.NetConn()
	}
	switch c := c.(type) {
	case *net.TCPConn:
		raw, err := c.SyscallConn()
		if err != nil {
			return 0, 0
		}
		raw.Control(func(fd uintptr) {
			queued, _ = unix.IoctlGetInt(int(fd), unix.SIOCOUTQ)
			if queued == 0 {
				return
			}
			if info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
				taken = info.Bytes_acked
			}
		})
	case *net.UnixConn:
		raw, err := c.SyscallConn()
		if err != nil {
			return 0, 0
		}
		raw.Control(func(fd uintptr) { queued, _ = unix.IoctlGetInt(int(fd), unix.SIOCOUTQ) })
	}
	return queued, taken
}
