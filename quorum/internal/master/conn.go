package master

import (
	"net"
	"sync"
	"syscall"
	"time"

	"lockproxy/quorum/internal/wire"
)

// conn is one connection of a lane.
type conn struct {
	net.Conn
	number uint64
	try    func(b []byte) (n int) // writes what the socket takes at once; nil: only the writer writes
	polled Polled                 // nil: a goroutine reads
	unread func() bool            // whether bytes of the master wait in the socket; nil: not known
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
	c := &conn{Conn: raw, number: number, broken: make(chan struct{}), wake: make(chan struct{}, 1),
		try: tryOf(raw), unread: unreadOf(bare(raw))}
	if adopt == nil {
		return c
	}
	if polled, ok := adopt(raw); ok {
		c.Conn, c.polled, c.unread = polled, polled, polled.Unread
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
	// gather is how long operations wait at most for the answers to those before them. They do not
	// where there are fewer than gatherFrom of these: then to wait costs more than it saves.
	gather     = time.Millisecond
	gatherFrom = 4
	// maxSpare is the largest write buffer that is kept for the next batch.
	maxSpare = 1 << 20
	// maxInPlace is how many batches a caller of Flush writes before the writer takes over.
	maxInPlace = 4
)

// Flush writes what is queued. It never waits for the socket: what that does not take at once is
// left to the writer. Whoever queues calls it at the end of his turn, so that requests of many
// callers travel together.
//
// For the same reason one packet is on its way at a time: what is queued behind it waits for the
// Flush that follows its answer. If that takes too long, Flush is to be called again after left;
// 0: nothing waits.
func (l *Lane) Flush() (left time.Duration) {
	l.mu.Lock()
	left = l.gatherLocked()
	if left > 0 {
		l.mu.Unlock()
		return left
	}
	c := l.beginWriteLocked()
	l.mu.Unlock()
	if c == nil {
		return 0
	}
	for i := 0; c.try != nil && i < maxInPlace; i++ {
		batch := l.nextBatch(c)
		if len(batch) == 0 {
			return 0
		}
		if n := c.try(batch); n < len(batch) {
			c.rest = batch[n:]
			break
		}
	}
	c.wake <- struct{}{}
	return 0
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
	if c == nil || c.writing || l.idleLocked() {
		return nil
	}
	c.writing = true
	return c
}

// gatherLocked returns how long what is queued waits at most.
func (l *Lane) gatherLocked() time.Duration {
	if q := &l.queue; q.unsent == 0 || q.n-q.unsent < gatherFrom || q.unsent >= wire.MaxOps {
		return 0
	}
	return max(gather-(l.clock()-l.written), 0)
}

// idleLocked reports whether there is nothing to be written. While the master lacks the script, one
// packet goes out at a time, with the body. What was on its way when the master lost the script has to
// go out again before everything else: its answers come first.
func (l *Lane) idleLocked() bool {
	q := &l.queue
	return q.unsent == 0 || !l.loaded && q.unsent < q.n
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
	if l.conn != c || l.idleLocked() {
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
		if err != nil {
			l.fail(c, Reason(err, silence)) // before more is written to it
		}
		l.cfg.Host.EndTurn()
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
	l.heard.Store(int64(l.clock()))
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
