//go:build !unix

package master

import "net"

// tryOf returns nil: the writer of the lane writes everything, as with TLS.
func tryOf(net.Conn) func(b []byte) (n int) { return nil }
