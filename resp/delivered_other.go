//go:build !linux

package resp

import "net"

// refused tells whether what was last written was refused by the other side; here that cannot be known.
func refused(net.Conn) bool { return false }
