package resp

import (
	"net"
	"sync"
	"sync/atomic"

	"lockproxy/resp/internal/netpoll"
)

// uplink is the pump's way to the upstream. Fields and methods are the pump's unless they say
// otherwise.
type uplink struct {
	polled *netpoll.Conn // conn, if a loop watches it
	unsent []byte        // bytes that the upstream did not take at once
	failed error         // why the upstream cannot be reached; valid for the requests that were read together
	era    atomic.Uint64 // of the server when the upstream was dialled; 0: it was not. Read by others

	mu     sync.Mutex
	conn   net.Conn      // nil until it is needed; the pump, which sets it, reads it without mu
	copied chan struct{} // closed when the copier has ended; nil without conn
}

// open sets the connection, unless closed reports that the session has ended.
func (u *uplink) open(conn net.Conn, polled *netpoll.Conn, closed func() bool) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if closed() {
		return false
	}
	u.conn, u.polled, u.copied = conn, polled, make(chan struct{})
	return true
}

// get returns the connection and the channel of its copier. Safe for concurrent use.
func (u *uplink) get() (net.Conn, chan struct{}) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.conn, u.copied
}

// enter notes the server's era before the upstream is dialled. Retire either finds the note or
// makes the session dial in the next era.
func (u *uplink) enter(server *atomic.Uint64) {
	for {
		era := server.Load()
		u.era.Store(era)
		if server.Load() == era {
			return
		}
	}
}

// forward writes b. On a loop it keeps the bytes that the upstream does not take at once.
func (u *uplink) forward(b []byte, onLoop bool) (err error) {
	switch {
	case len(b) == 0 || u.failed != nil:
	case len(u.unsent) > 0:
		u.unsent = append(u.unsent, b...)
	case onLoop:
		var n int
		n, err = u.polled.TryWrite(b)
		u.unsent = append(u.unsent, b[n:]...)
	default:
		_, err = u.conn.Write(b)
	}
	return err
}

// flush writes the bytes that were kept. It may block.
func (u *uplink) flush() error {
	b := u.unsent
	u.unsent = nil
	return u.forward(b, false)
}

// gathered collects the bytes of b that one write forwards: b[from:to], then b[next:] up to an
// offset that the caller passes. Dropped bytes leave a gap, which drop closes in place. Each byte
// moves once at most.
type gathered struct {
	b              []byte
	from, to, next int
}

// any reports whether there are bytes to forward before offset at.
func (g *gathered) any(at int) bool { return g.to > g.from || at > g.next }

// drop leaves out the n bytes at offset at.
func (g *gathered) drop(at, n int) {
	if g.to < g.next {
		copy(g.b[g.to:], g.b[g.next:at])
	}
	g.to += at - g.next
	g.next = at + n
}

// take returns the bytes to forward before offset at, and starts again there.
func (g *gathered) take(at int) []byte {
	g.drop(at, 0)
	whole := g.b[g.from:g.to]
	g.from, g.to = at, at
	return whole
}
