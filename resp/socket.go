package resp

import "net"

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
