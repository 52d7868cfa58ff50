package master

import (
	"net"
	"sync"
	"sync/atomic"

	"lockproxy/quorum/internal/wire"
)

// conn is one connection of a lane: it writes the queue of the lane, and hands the answers to it.
type conn struct {
	net.Conn
	lane   *Lane
	number uint64
	polled PolledConn   // nil: a goroutine reads
	unread func() bool  // whether bytes of the master wait in the socket; nil: not known
	heard  atomic.Int64 // when the last bytes came, by the lane's clock

	broken chan struct{} // closed by once
	once   sync.Once
	reason error // set before broken is closed: why

	writing writing
	reading reading
}

// writing is the state of the goroutine that writes to a connection: one at a time, see active.
type writing struct {
	active bool               // until all is sent; guarded by the lane's mu
	try    func(b []byte) int // writes as many bytes as the socket takes at once; nil: only conn.write writes
	wake   chan struct{}      // holds a value to leave the writing to conn.write
	out    []byte
	rest   []byte // the part of out that the socket has not taken
}

// reading is the state of the goroutine or event loop that reads a connection.
type reading struct {
	mu     sync.Mutex // held by an event loop while it hands over bytes
	ended  bool       // guarded by mu: further bytes are dropped
	in     []byte     // the beginning of a reply
	reply  wire.Reply
	done   []entry // of the packet that was answered last; also guarded by the lane's mu
	answer Answer
}

// newConn wraps a connection of l. An event loop reads it if the lane has one that adopts it.
func newConn(l *Lane, raw net.Conn, number uint64) *conn {
	c := &conn{Conn: raw, lane: l, number: number, broken: make(chan struct{}), unread: unreadOf(bare(raw)),
		writing: writing{try: tryOf(raw), wake: make(chan struct{}, 1)}}
	if l.cfg.Adopt == nil {
		return c
	}
	if polled, ok := l.cfg.Adopt(raw); ok {
		c.Conn, c.polled, c.unread = polled, polled, polled.Unread
		c.writing.try = func(b []byte) int {
			n, _ := polled.TryWrite(b) // the writer meets the error
			return max(n, 0)
		}
	}
	return c
}

// is reports whether c is the connection with that number. c may be nil.
func (c *conn) is(number uint64) bool { return c != nil && c.number == number }

// maxSpare is the largest buffer that is kept for the next batch.
const maxSpare = 1 << 20

// wakeLocked makes the writer send the queue. c may be nil.
func (c *conn) wakeLocked() {
	if c.beginWriteLocked() {
		c.writing.wake <- struct{}{}
	}
}

// beginWriteLocked reports whether the caller must write now. It is false if the queue is sent, if
// another goroutine writes already, or if c is nil.
func (c *conn) beginWriteLocked() bool {
	if c == nil || c.writing.active || c.lane.packets.idle(&c.lane.queue) {
		return false
	}
	c.writing.active = true
	return true
}

// nextBatch returns the bytes to write next; from here on they count as written. After an empty
// batch the caller must no longer write.
func (c *conn) nextBatch() []byte {
	l, w := c.lane, &c.writing
	if rest := w.rest; len(rest) > 0 {
		w.rest = nil
		return rest
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn != c || l.packets.idle(&l.queue) {
		w.active = false
		return nil
	}
	if cap(w.out) > maxSpare {
		w.out = nil
	}
	w.out = l.packets.encode(w.out[:0], &l.queue, l.cfg.Encoder, l.server.record, l.cfg.clock())
	return w.out
}

// maxInPlace is how many batches a caller of Flush writes before the writer takes over.
const maxInPlace = 4

// flush writes as much as the socket takes at once, and leaves the rest to the writer.
func (c *conn) flush() {
	w := &c.writing
	for i := 0; w.try != nil && i < maxInPlace; i++ {
		batch := c.nextBatch()
		if len(batch) == 0 {
			return
		}
		if n := w.try(batch); n < len(batch) {
			w.rest = batch[n:]
			break
		}
	}
	w.wake <- struct{}{}
}

// write is the writer of a connection.
func (c *conn) write() {
	for {
		select {
		case <-c.broken:
			return
		case <-c.writing.wake:
		}
		for batch := c.nextBatch(); len(batch) > 0; batch = c.nextBatch() {
			if _, err := c.Write(batch); err != nil {
				c.fail(Reason(err, silence))
				return
			}
		}
	}
}

// read is the reader of a connection that no event loop reads.
func (c *conn) read() {
	buf := make([]byte, 16<<10)
	for {
		n, err := c.Read(buf)
		ok := c.received(buf[:n])
		if err != nil {
			c.fail(Reason(err, silence)) // before more is written to it
		}
		c.lane.cfg.Host.Flush()
		if err != nil || !ok {
			return
		}
	}
}

// watch makes an event loop read a connection that it has adopted.
func (c *conn) watch() {
	c.polled.Watch(func(b []byte) (stop bool) {
		c.reading.mu.Lock()
		defer c.reading.mu.Unlock()
		return c.reading.ended || !c.received(b)
	}, func(err error) {
		c.fail(Reason(err, silence))
	})
}

// endReading makes an event loop that may still read the connection drop all further bytes.
func (c *conn) endReading() {
	c.reading.mu.Lock()
	c.reading.ended = true
	c.reading.mu.Unlock()
}

// received processes bytes of the master, which may begin and end within a reply. It returns false
// if the connection is of no use any more.
func (c *conn) received(b []byte) bool {
	r := &c.reading
	c.heard.Store(int64(c.lane.cfg.clock()))
	if len(r.in) > 0 {
		r.in = append(r.in, b...)
		b = r.in
	}
	for len(b) > 0 {
		n, err := wire.Parse(b, &r.reply)
		if err != nil {
			c.fail(err)
			return false
		}
		if n == 0 {
			break
		}
		b = b[n:]
		if !c.handle(&r.reply) {
			return false
		}
	}
	if len(b) == 0 && cap(r.in) > maxSpare {
		r.in = nil
	}
	r.in = append(r.in[:0], b...)
	return true
}

// fail ends the connection for a reason. From here on its master counts as "no answer". The
// reader, the writer and the supervisor find out by themselves.
func (c *conn) fail(reason error) {
	l := c.lane
	l.mu.Lock()
	if l.conn == c {
		l.conn, l.server.record, l.pace = nil, "", pace{}
		l.status.lost(reason)
	}
	l.mu.Unlock()
	first := false
	c.once.Do(func() {
		first, c.reason = true, reason
		close(c.broken)
	})
	if first { // a loop that watches the connection calls fail while it is closed
		HangUp(c.Conn)
	}
}
