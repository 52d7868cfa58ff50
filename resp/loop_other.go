//go:build !linux

package resp

import "net"

// loops carry the bytes of plain sockets. Only Linux has them; elsewhere each direction of a connection is carried by a goroutine.
type loops struct{ busy func() bool }

func (*loops) pick() *loop { return nil }

func (*loops) close() {}

type loop struct{}

func (*loop) adopt(c net.Conn) net.Conn { return c }

func (*loop) wakes() {}
