package netpoll

import (
	"io"
	"net"
	"syscall"
)

// Source reads a connection from a goroutine. If it is a plain socket, memory is taken only once
// bytes have arrived. NewSource makes one.
type Source struct {
	conn net.Conn
	raw  syscall.RawConn // nil: not a plain socket, or one that a loop watches
}

// NewSource returns a Source that reads conn.
func NewSource(conn net.Conn) Source {
	if _, adopted := conn.(*Conn); adopted {
		return Source{conn: conn}
	}
	if c, ok := conn.(syscall.Conn); ok { // a TLS connection is none: its socket has other bytes
		if raw, err := c.SyscallConn(); err == nil {
			return Source{conn, raw}
		}
	}
	return Source{conn: conn}
}

// Receive reads into x and calls use after every read, until use returns true (then the error is
// nil) or nothing more can be read. At the end of input the error is io.EOF. Both use and Receive may
// block. Bytes that use leaves in x stay there, otherwise x is left without memory.
func (s Source) Receive(x *Buffer, use func() (stop bool)) error {
	defer x.Release()
	if c, adopted := s.conn.(*Conn); adopted {
		return c.receive(x, use)
	}
	if s.raw == nil {
		return s.receiveAny(x, use)
	}
	var readErr error
	err := s.raw.Read(func(fd uintptr) (done bool) {
		done, readErr = s.drain(int(fd), x, use)
		return done
	})
	if readErr != nil {
		return readErr
	}
	return err
}

// waitSize is how much memory a connection that is not a plain socket takes while nothing comes.
const waitSize = 4 << 10

// receiveAny is Receive for a connection that is not a plain socket. Only behind a read that was full, where more is likely to be
// there, it waits with the memory for more.
func (s Source) receiveAny(x *Buffer, use func() (stop bool)) error {
	small := make([]byte, waitSize)
	for more := false; ; {
		var n int
		var err error
		if more {
			n, err = s.conn.Read(x.Room())
			x.Grew(n)
		} else {
			n, err = s.conn.Read(small)
			x.add(small[:n])
		}
		if n > 0 && use() {
			return nil
		}
		if err != nil {
			return err
		}
		more = n >= waitSize
		x.Release()
	}
}

// drain reads what is there. done is false where more is to be waited for.
func (s Source) drain(fd int, x *Buffer, use func() (stop bool)) (done bool, err error) {
	for {
		n, err := syscall.Read(fd, x.Room())
		switch {
		case err == syscall.EINTR:
			continue
		case err == syscall.EAGAIN:
			x.Release()
			return false, nil
		case err != nil:
			network := s.conn.LocalAddr().Network()
			return true, &net.OpError{Op: "read", Net: network, Addr: s.conn.RemoteAddr(), Err: err}
		case n == 0:
			return true, io.EOF
		}
		x.Grew(n)
		if use() {
			return true, nil
		}
	}
}
