package netpoll

import "net"

// Underlying returns the connection below TLS and whatever else wraps it (see tls.Conn.NetConn).
func Underlying(c net.Conn) net.Conn {
	for {
		wrapped, ok := c.(interface{ NetConn() net.Conn })
		if !ok {
			return c
		}
		c = wrapped.NetConn()
	}
}

// CloseWrite sends the end of input to the other side, which may go on sending. A connection that
// cannot be closed by halves is closed.
func CloseWrite(c net.Conn) error {
	if h, ok := c.(interface{ CloseWrite() error }); ok {
		return h.CloseWrite()
	}
	return c.Close()
}

// RawClose closes the socket below c. It never waits, as closing a TLS connection may.
func RawClose(c net.Conn) error { return Underlying(c).Close() }
