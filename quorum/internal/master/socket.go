package master

import (
	"crypto/tls"
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

// HangUp closes a connection below TLS: the Close of TLS would wait for its farewell to be sent.
func HangUp(c net.Conn) { _ = bare(c).Close() }

// bare returns the connection below TLS.
func bare(c net.Conn) net.Conn {
	if secure, ok := c.(*tls.Conn); ok {
		return secure.NetConn()
	}
	return c
}

// keepLinger makes the coming Close of c deliver the written bytes. It is only for the orderly
// end, where every SET is followed by its release.
func keepLinger(c net.Conn) {
	if tcp, ok := bare(c).(interface{ SetLinger(seconds int) error }); ok {
		_ = tcp.SetLinger(-1)
	}
}
