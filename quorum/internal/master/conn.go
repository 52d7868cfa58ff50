package master

import (
	"net"
	"sync"
	"syscall"

	"lockproxy/quorum/internal/wire"
)

// conn is one connection of a lane.
type conn struct {
	net.Conn
	number uint64
	try    func(b []byte) (n int) // writes what the socket takes at once; nil: only the writer writes
	polled Polled                 // nil: a goroutine reads
	broken chan struct{}          // closed by once
	once   sync.Once
	reason error // set before broken is closed: why

	writing bool          // somebody writes, until nothing is unsent; guarded by the lane's mu
	wake    chan struct{} // holds a value when that is left to the writer
	out     []byte        // of whoever writes
	rest    []byte        // of out: what the socket has not taken

	// Used by whoever reads; done is also guarded by the lane's mu.
	turn   sync.Mutex // held by an event loop while it hands over what arrived
	over   bool       // guarded by turn: nothing is taken any more
	in     []byte     // the beginning of a reply
	reply  wire.Reply
	done   []entry // of the packet that was answered last
	answer Answer
}

// newConn wraps a connection. An event loop reads it, if adopt says so.
func newConn(raw net.Conn, number uint64, adopt func(net.Conn) (Polled, bool)) *conn {
	c := &conn{Conn: raw, number: number, broken: make(chan struct{}), wake: make(chan struct{}, 1), try: tryOf(raw)}
	if adopt == nil {
		return c
	}
	if polled, ok := adopt(raw); ok {
		c.Conn, c.polled = polled, polled
		c.try = func(b []byte) int {
			n, _ := polled.TryWrite(b) // the writer meets the error
			return max(n, 0)
		}
	}
	return c
}

// tryOf returns how to write to c without waiting; nil if c is no plain socket.
func tryOf(c net.Conn) func(b []byte) (n int) {
	socket, ok := c.(syscall.Conn)
	if !ok { // TLS, or a connection in memory
		return nil
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return nil
	}
	return func(b []byte) (n int) {
		err := raw.Write(func(fd uintptr) (done bool) {
			n, _ = syscall.Write(int(fd), b) // the writer meets the error
			return true
		})
		if err != nil {
			return 0
		}
		return max(n, 0)
	}
}

const (
	// maxSpare is the largest write buffer that is kept for the next batch.
	maxSpare = 1 << 20
	// maxInPlace is how many batches a caller of Flush writes before the writer takes over.
	maxInPlace = 4
)

// Flush writes what is queued. It never waits for the socket: what that does not take at once is
// left to the writer. Whoever queues calls it at the end of his turn, so that requests of many
// callers travel together.
func (l *Lane) Flush() {
	l.mu.Lock()
	c := l.beginWriteLocked()
	l.mu.Unlock()
	if c == nil {
		return
	}
	for i := 0; c.try != nil && i < maxInPlace; i++ {
		batch := l.nextBatch(c)
		if len(batch) == 0 {
			return
		}
		if n := c.try(batch); n < len(batch) {
			c.rest = batch[n:]
			break
		}
	}
	c.wake <- struct{}{}
}

// wakeLocked leaves what is queued to the writer.
func (l *Lane) wakeLocked() {
	if c := l.beginWriteLocked(); c != nil {
		c.wake <- struct{}{}
	}
}

// beginWriteLocked returns the connection for the caller to write to; nil if there is nothing to
// write, or somebody writes already.
func (l *Lane) beginWriteLocked() *conn {
	c := l.conn
	if c == nil || c.writing || l.queue.unsent == 0 {
		return nil
	}
	c.writing = true
	return c
}

// nextBatch returns what is to be written next; from here on it counts as written. When nothing is
// left it is no longer the caller's turn to write.
func (l *Lane) nextBatch(c *conn) []byte {
	if rest := c.rest; len(rest) > 0 {
		c.rest = nil
		return rest
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn != c || l.queue.unsent == 0 {
		c.writing = false
		return nil
	}
	if cap(c.out) > maxSpare {
		c.out = nil
	}
	c.out = l.encodeLocked(c.out[:0])
	return c.out
}

// write is the writer of a connection.
func (l *Lane) write(c *conn) {
	for {
		select {
		case <-c.broken:
			return
		case <-c.wake:
		}
		for batch := l.nextBatch(c); len(batch) > 0; batch = l.nextBatch(c) {
			if _, err := c.Write(batch); err != nil {
				l.fail(c, Reason(err, silence))
				return
			}
		}
	}
}

// read is the reader of a connection that no event loop reads.
func (l *Lane) read(c *conn) {
	buf := make([]byte, 16<<10)
	for {
		n, err := c.Read(buf)
		ok := l.received(c, buf[:n])
		l.cfg.Host.EndTurn()
		if err != nil {
			l.fail(c, Reason(err, silence))
		}
		if err != nil || !ok {
			return
		}
	}
}

// watch makes an event loop read a connection that it has adopted.
func (l *Lane) watch(c *conn) {
	c.polled.Watch(func(b []byte) (stop bool) {
		c.turn.Lock()
		defer c.turn.Unlock()
		return c.over || !l.received(c, b)
	}, func(err error) {
		l.fail(c, Reason(err, silence))
	})
}

// received handles what the master sent, which may begin and end within a reply. It is false if
// the connection is of no use any more.
func (l *Lane) received(c *conn, b []byte) bool {
	if len(c.in) > 0 {
		c.in = append(c.in, b...)
		b = c.in
	}
	for len(b) > 0 {
		n, err := wire.Parse(b, &c.reply)
		if err != nil {
			l.fail(c, err)
			return false
		}
		if n == 0 {
			break
		}
		b = b[n:]
		if !l.handle(c, &c.reply) {
			return false
		}
	}
	if len(b) == 0 && cap(c.in) > maxSpare {
		c.in = nil
	}
	c.in = append(c.in[:0], b...)
	return true
}
