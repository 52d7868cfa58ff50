package resp

import (
	"net"
	"syscall"
)

// socket is the connection below TLS and whatever else is wrapped around it.
func socket(c net.Conn) net.Conn {
	for {
		wrapped, ok := c.(interface{ NetConn() net.Conn })
		if !ok {
			return c
		}
		c = wrapped.NetConn()
	}
}

// rawSocket is the descriptor of the socket below c; ok is false if there is none.
func rawSocket(c net.Conn) (raw syscall.RawConn, ok bool) {
	opened, ok := socket(c).(syscall.Conn)
	if !ok {
		return nil, false
	}
	raw, err := opened.SyscallConn()
	return raw, err == nil
}

// rawTCP is rawSocket if the socket is one of TCP.
func rawTCP(c net.Conn) (raw syscall.RawConn, ok bool) {
	if _, ok := socket(c).LocalAddr().(*net.TCPAddr); !ok {
		return nil, false
	}
	return rawSocket(c)
}
