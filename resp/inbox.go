package resp

import (
	"io"
	"net"
	"sync"
	"syscall"
)

// chunkSize is the size of the buffers that connections are read with.
const chunkSize = 16 << 10

var chunks = sync.Pool{New: func() any { return new([chunkSize]byte) }}

// chunk is memory of the pool with bytes in it.
type chunk struct {
	mem *[chunkSize]byte
	n   int
}

func newChunk() chunk { return chunk{mem: chunks.Get().(*[chunkSize]byte)} }

func (c chunk) bytes() []byte { return c.mem[:c.n] }

// giveBack returns the memory, which nobody may use any more.
func (c chunk) giveBack() { chunks.Put(c.mem) }

// inbox holds the bytes read from a connection until they are dealt with. It has memory only while it has bytes, so that an idle
// connection costs none. The zero value is empty. Not safe for concurrent use.
type inbox struct {
	mem    []byte
	pooled *[chunkSize]byte // mem, where it came from the pool
	r, w   int              // mem[r:w] is not dealt with yet
}

func (x *inbox) bytes() []byte { return x.mem[x.r:x.w] }

func (x *inbox) skip(n int) { x.r += n }

// room returns memory to read into, behind the bytes that are there. It is never empty.
func (x *inbox) room() []byte {
	switch {
	case x.mem == nil:
		x.pooled = chunks.Get().(*[chunkSize]byte)
		x.mem = x.pooled[:]
	case x.r == x.w:
		x.r, x.w = 0, 0
	case x.w == len(x.mem) && x.r > 0:
		x.w = copy(x.mem, x.mem[x.r:x.w])
		x.r = 0
	case x.w == len(x.mem): // one unfinished inline request fills it
		mem := make([]byte, 2*len(x.mem))
		copy(mem, x.mem)
		x.giveBack()
		x.mem = mem
	}
	return x.mem[x.w:]
}

// hold adds the bytes of c behind those that are there. It takes over the memory.
func (x *inbox) hold(c chunk) {
	if x.r == x.w {
		x.giveBack()
		x.mem, x.pooled, x.r, x.w = c.mem[:], c.mem, 0, c.n
		return
	}
	defer c.giveBack()
	for b := c.bytes(); len(b) > 0; {
		n := copy(x.room(), b)
		x.w += n
		b = b[n:]
	}
}

// release gives the memory back if there is nothing in it.
func (x *inbox) release() {
	if x.r == x.w {
		x.giveBack()
		x.mem, x.r, x.w = nil, 0, 0
	}
}

func (x *inbox) giveBack() {
	if x.pooled != nil {
		chunks.Put(x.pooled)
		x.pooled = nil
	}
}

// source reads a connection. For a socket it takes memory only once bytes have arrived.
type source struct {
	conn net.Conn
	raw  syscall.RawConn // nil: not a plain socket, or one that a loop watches
}

func newSource(conn net.Conn) source {
	_, onLoop := conn.(carried)
	if c, ok := conn.(syscall.Conn); ok && !onLoop { // not TLS, whose socket has other bytes
		if raw, err := c.SyscallConn(); err == nil {
			return source{conn, raw}
		}
	}
	return source{conn, nil}
}

// receive reads into x and calls use after every read, until use returns true (then err is nil) or nothing more can be read. With onLoop
// set a loop does so; it may also stop by itself, with a nil error. At the end of input err is io.EOF.
func (s source) receive(x *inbox, use func(mayBlock bool) (stop bool), onLoop bool) error {
	if c, ok := s.conn.(carried); ok {
		return c.receive(x, use, onLoop)
	}
	if s.raw == nil {
		for {
			n, err := s.conn.Read(x.room())
			x.w += n
			if n > 0 && use(true) {
				return nil
			}
			x.release()
			if err != nil {
				return err
			}
		}
	}
	var readErr error
	err := s.raw.Read(func(fd uintptr) bool {
		for {
			n, err := syscall.Read(int(fd), x.room())
			switch {
			case err == syscall.EINTR:
				continue
			case err == syscall.EAGAIN:
				x.release()
				return false
			case err != nil:
				readErr = &net.OpError{Op: "read", Net: s.conn.LocalAddr().Network(), Addr: s.conn.RemoteAddr(), Err: err}
				return true
			case n == 0:
				readErr = io.EOF
				return true
			}
			x.w += n
			if use(true) {
				return true
			}
		}
	})
	x.release()
	if readErr != nil {
		return readErr
	}
	return err
}

// closeWrite sends the end of input to the other side, which may go on sending.
func closeWrite(c net.Conn) error {
	if h, ok := c.(interface{ CloseWrite() error }); ok {
		return h.CloseWrite()
	}
	return c.Close()
}
