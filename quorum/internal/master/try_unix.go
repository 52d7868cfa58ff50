//go:build unix

package master

import (
	"net"
	"syscall"
)

// tryOf returns how to write to c without waiting; nil if c is no plain socket.
func tryOf(c net.Conn) func(b []byte) (n int) {
	socket, ok := c.(syscall.Conn)
	if !ok { // TLS, or a connection in memory
		return nil
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return nil
	}
	return func(b []byte) (n int) {
		err := raw.Write(func(fd uintptr) (done bool) {
			n, _ = syscall.Write(int(fd), b) // the writer meets the error
			return true
		})
		if err != nil {
			return 0
		}
		return max(n, 0)
	}
}
