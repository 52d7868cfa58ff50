package embedded

import (
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// bufConn is one end of a connection inside the process. Unlike net.Pipe, and like TCP, it buffers
// written bytes, so that pipelines do not deadlock. One direction can be closed alone, and bytes
// written before a close can still be read. Deadlines work as net.Conn says. Safe for concurrent
// use.
type bufConn struct {
	in, out *pipe
	name    memoryAddr
}

// newBufConns returns the two ends of a connection. A write by the client blocks while about limit
// bytes are unread. A write by the server never blocks, because the writer may hold a mutex of the
// whole server. It fails while more than hard bytes are unread: the server must call waitUnread
// before a command.
func newBufConns(name string, limit, hard int) (client, server *bufConn) {
	up, down := newPipe(limit, 0), newPipe(0, hard)
	return &bufConn{down, up, memoryAddr(name)}, &bufConn{up, down, memoryAddr(name)}
}

func (c *bufConn) Read(b []byte) (int, error)  { return c.in.read(b) }
func (c *bufConn) Write(b []byte) (int, error) { return c.out.write(b) }

// CloseWrite ends the data to the other end, which then reads io.EOF. Reading goes on.
func (c *bufConn) CloseWrite() error { c.out.closeWrite(); return nil }

// Close ends both directions. The other end reads the buffered bytes, then io.EOF; its writes
// fail.
func (c *bufConn) Close() error {
	c.out.closeWrite()
	c.in.closeRead()
	return nil
}

func (c *bufConn) LocalAddr() net.Addr  { return c.name }
func (c *bufConn) RemoteAddr() net.Addr { return c.name }

func (c *bufConn) SetDeadline(t time.Time) error {
	c.SetReadDeadline(t)
	return c.SetWriteDeadline(t)
}
func (c *bufConn) SetReadDeadline(t time.Time) error { c.in.setDeadline(&c.in.readBy, t); return nil }
func (c *bufConn) SetWriteDeadline(t time.Time) error {
	c.out.setDeadline(&c.out.writeBy, t)
	return nil
}

// waitUnread blocks until the other end has at most n bytes left to read. It returns false once
// either end is closed.
func (c *bufConn) waitUnread(n int) bool { return c.out.waitUnread(n) }

// leaving is closed when the other end closes its writing half, or this end is closed.
func (c *bufConn) leaving() <-chan struct{} { return c.in.ended }

// left reports whether either end is closed for more than writing, so that written bytes have no
// reader.
func (c *bufConn) left() bool {
	c.out.mu.Lock()
	defer c.out.mu.Unlock()
	return c.out.readClosed || c.out.writeClosed
}

// memoryAddr is the name of a server inside the process.
type memoryAddr string

func (memoryAddr) Network() string  { return "memory" }
func (a memoryAddr) String() string { return string(a) }

// pipe is one direction.
type pipe struct {
	limit int           // writers wait while this much is unread; 0: they never wait
	hard  int           // writes fail while more than this is unread; 0: they never fail
	ended chan struct{} // closed by the first call of closeWrite or closeRead

	mu          sync.Mutex
	changed     *sync.Cond // any field below changed
	buf         []byte     // written and unread, from off
	off         int
	writeClosed bool
	readClosed  bool
	readBy      pipeDeadline
	writeBy     pipeDeadline
}

type pipeDeadline struct {
	at    time.Time
	timer *time.Timer
}

func (d *pipeDeadline) passed() bool { return !d.at.IsZero() && !time.Now().Before(d.at) }

func newPipe(limit, hard int) *pipe {
	p := &pipe{limit: limit, hard: hard, ended: make(chan struct{})}
	p.changed = sync.NewCond(&p.mu)
	return p
}

func (p *pipe) unreadLocked() int { return len(p.buf) - p.off }

func (p *pipe) read(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		switch {
		case p.readClosed:
			return 0, net.ErrClosed
		case p.readBy.passed():
			return 0, os.ErrDeadlineExceeded
		case len(b) == 0:
			return 0, nil
		case p.unreadLocked() > 0:
			n := copy(b, p.buf[p.off:])
			p.off += n
			p.shrinkLocked()
			p.changed.Broadcast()
			return n, nil
		case p.writeClosed:
			return 0, io.EOF
		}
		p.changed.Wait()
	}
}

// shrinkLocked frees memory: a large buffer once it is read, the read part once it is the larger
// half.
func (p *pipe) shrinkLocked() {
	const keep = 64 << 10
	switch unread := p.unreadLocked(); {
	case unread == 0 && cap(p.buf) > keep:
		p.buf, p.off = nil, 0
	case unread == 0:
		p.buf, p.off = p.buf[:0], 0
	case p.off > keep && p.off > unread:
		p.buf = p.buf[:copy(p.buf, p.buf[p.off:])]
		p.off = 0
	}
}

func (p *pipe) write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	written := 0
	for {
		switch {
		case p.writeClosed:
			return written, net.ErrClosed
		case p.readClosed:
			return written, io.ErrClosedPipe
		case p.writeBy.passed():
			return written, os.ErrDeadlineExceeded
		case len(b) == 0:
			return written, nil
		case p.hard > 0 && p.unreadLocked() > p.hard:
			return written, io.ErrShortWrite
		}
		room := len(b)
		if p.limit > 0 {
			room = min(room, p.limit-p.unreadLocked())
		}
		if room > 0 {
			p.buf = append(p.buf, b[:room]...)
			b, written = b[room:], written+room
			p.changed.Broadcast()
			continue
		}
		p.changed.Wait()
	}
}

func (p *pipe) waitUnread(n int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.unreadLocked() > n && !p.readClosed && !p.writeClosed {
		p.changed.Wait()
	}
	return !p.readClosed && !p.writeClosed
}

func (p *pipe) closeWrite() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.endLocked()
	p.writeClosed = true
	p.changed.Broadcast()
}

func (p *pipe) closeRead() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.endLocked()
	p.readClosed = true
	p.buf, p.off = nil, 0
	p.changed.Broadcast()
}

func (p *pipe) endLocked() {
	if !p.writeClosed && !p.readClosed {
		close(p.ended)
	}
}

func (p *pipe) setDeadline(d *pipeDeadline, t time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
	d.at = t
	if wait := time.Until(t); !t.IsZero() && wait > 0 {
		d.timer = time.AfterFunc(wait, func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.changed.Broadcast()
		})
	}
	p.changed.Broadcast()
}

var _ net.Conn = (*bufConn)(nil)
