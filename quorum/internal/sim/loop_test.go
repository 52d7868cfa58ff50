package sim

import (
	"net"
	"time"

	"lockproxy/quorum"
)

// An event loop of the simulation: the goroutine that delivers messages reads the connections that
// proxies have handed over, and flushes at the end of each turn.

// watching is how the loop reads a link.
type watching struct {
	received func(b []byte) (stop bool)
	ended    func(error)
	over     bool
}

var _ quorum.PolledConn = (*simLink)(nil)

// adopt is Options.Adopt of a proxy whose connections a loop reads.
func (w *world) adopt(conn net.Conn) (quorum.PolledConn, bool) { return conn.(*simLink), true }

// TryWrite writes as much as the socket takes: now and then not all.
func (li *simLink) TryWrite(b []byte) (int, error) {
	li.net.mu.Lock()
	defer li.net.mu.Unlock()
	if h := mix(li.hash, 't', uint64(time.Now().UnixNano())); h%8 == 0 {
		b = b[:mix(h, 1)%uint64(len(b)+1)]
	}
	return li.writeLocked(b)
}

// Unread reports whether bytes have arrived that the loop has not read.
func (li *simLink) Unread() bool {
	li.net.mu.Lock()
	defer li.net.mu.Unlock()
	return len(li.in) > 0
}

// Watch hands the link to the loop.
func (li *simLink) Watch(received func(b []byte) (stop bool), ended func(error)) {
	li.net.mu.Lock()
	defer li.net.mu.Unlock()
	li.watch = &watching{received: received, ended: ended}
	li.net.post.putLocked(letter{due: time.Now().Add(time.Nanosecond), do: li.signalLocked})
}

// turn is the loop's turn for a link. It is called without the network's mu.
func (li *simLink) turn() {
	li.net.mu.Lock()
	b, err, wt := li.in, li.err, li.watch
	if li.closed {
		b, err = nil, net.ErrClosed
	}
	li.in = nil
	q := li.from.q
	li.net.mu.Unlock()
	if wt.over {
		return
	}
	if len(b) > 0 && wt.received(b) {
		wt.over = true
	}
	if err != nil && !wt.over {
		wt.over = true
		wt.ended(err)
	}
	if q != nil {
		q.Flush()
	}
}
