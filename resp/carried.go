package resp

import "net"

// carried is a connection that a loop watches. Its bytes can be dealt with on the loop itself, without waking a goroutine.
type carried interface {
	net.Conn
	// receive reads into x and calls use after every read, until use returns true (then err is nil) or nothing more can be read. With
	// onLoop set the loop calls use, which then must not block, as mayBlock says; else the caller's goroutine.
	receive(x *inbox, use func(mayBlock bool) (stop bool), onLoop bool) error
	// tryWrite writes as much of b as can be written at once.
	tryWrite(b []byte) (n int, err error)
}
