package master

import (
	"crypto/tls"
	"net"
)

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
