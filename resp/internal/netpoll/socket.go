package netpoll

import "net"

// waitSize is how much memory an idle connection takes if no loop watches it.
const waitSize = 4 << 10

// Receive reads conn into x and calls received after every read, until received returns true (then
// the error is nil) or no more can be read. At the end of input the error is io.EOF. Both received
// and Receive may block. Bytes that received leaves in x stay there, otherwise x is left without
// memory.
//
// It reads into little memory. It reads into that of x only after a full read, when more bytes are
// likely to be there.
func Receive(conn net.Conn, x *Buffer, received func() (stop bool)) error {
	if c, adopted := conn.(*Socket); adopted {
		return receive(c, x, received)
	}
	defer x.Release()
	small := make([]byte, waitSize)
	for n, err := 0, error(nil); ; {
		if n >= waitSize {
			n, err = conn.Read(x.Room())
			x.Grew(n)
		} else {
			n, err = conn.Read(small)
			x.add(small[:n])
		}
		if n > 0 && received() {
			return nil
		}
		if err != nil {
			return err
		}
		x.Release()
	}
}

// Underlying returns the connection below TLS and other wrappers (see tls.Conn.NetConn).
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

// RawClose closes the socket below c. It never waits, while closing a TLS connection may.
func RawClose(c net.Conn) error { return Underlying(c).Close() }
