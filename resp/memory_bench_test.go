package resp

import (
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// benchWay carries bytes one way between two ends in memory. Its buffer grows to the most bytes
// that were on the way at a time, and is used again.
type benchWay struct {
	mu      sync.Mutex
	changed sync.Cond
	buf     []byte
	read    int // of buf
	closed  bool
	past    bool // the reader's deadline has passed
}

func newBenchWay() *benchWay {
	w := &benchWay{buf: make([]byte, 0, 64<<10)}
	w.changed.L = &w.mu
	return w
}

// benchConn is one end of a connection in memory.
type benchConn struct{ in, out *benchWay }

func (c *benchConn) Read(p []byte) (int, error) {
	w := c.in
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.read == len(w.buf) && !w.closed && !w.past {
		w.changed.Wait()
	}
	switch {
	case w.read < len(w.buf):
	case w.past:
		return 0, os.ErrDeadlineExceeded
	default:
		return 0, io.EOF
	}
	n := copy(p, w.buf[w.read:])
	if w.read += n; w.read == len(w.buf) {
		w.buf, w.read = w.buf[:0], 0
	}
	return n, nil
}

func (c *benchConn) Write(p []byte) (int, error) {
	w := c.out
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return 0, net.ErrClosed
	}
	w.buf = append(w.buf, p...)
	w.changed.Signal()
	return len(p), nil
}

func (c *benchConn) Close() error {
	for _, w := range []*benchWay{c.in, c.out} {
		w.mu.Lock()
		w.closed = true
		w.mu.Unlock()
		w.changed.Broadcast()
	}
	return nil
}

// SetReadDeadline knows only the past, which wakes a reader, and none.
func (c *benchConn) SetReadDeadline(t time.Time) error {
	c.in.mu.Lock()
	c.in.past = !t.IsZero() && !t.After(time.Now())
	c.in.mu.Unlock()
	c.in.changed.Broadcast()
	return nil
}

func (c *benchConn) SetDeadline(t time.Time) error    { return c.SetReadDeadline(t) }
func (c *benchConn) SetWriteDeadline(time.Time) error { return nil }
func (c *benchConn) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (c *benchConn) RemoteAddr() net.Addr             { return &net.TCPAddr{} }

// benchListener accepts connections in memory.
type benchListener struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newBenchListener() *benchListener {
	return &benchListener{conns: make(chan net.Conn), done: make(chan struct{})}
}

func (l *benchListener) dial() (net.Conn, error) {
	there, back := newBenchWay(), newBenchWay()
	select {
	case l.conns <- &benchConn{there, back}:
		return &benchConn{back, there}, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *benchListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *benchListener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

func (l *benchListener) Addr() net.Addr { return &net.TCPAddr{} }
