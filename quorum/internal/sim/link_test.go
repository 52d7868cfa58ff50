package sim

import (
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"lockproxy/quorum/internal/fake"
)

// endKind says whether a message ends the connection, and how.
type endKind uint8

const (
	noEnd endKind = iota
	fin           // the other end was closed
	rst           // the connection is broken
)

// message holds the bytes written at one instant.
type message struct {
	data    []byte
	end     endKind
	written time.Time
	due     time.Time
	asked   time.Time // down: when its newest question with the clock in the answer was written; zero without
	record  string    // down: that the master had then
}

// flow is one direction of a link: messages on their way, oldest first.
type flow struct {
	queue   []*message
	last    time.Time     // when the newest ever is due
	instant time.Duration // of the link and direction, see instants
}

// simLink is a connection. It is a net.Conn to the proxy; its other end belongs to a server.
// Guarded by the network's mu.
type simLink struct {
	net    *network
	path   *path
	from   *simProxy
	server *simMaster
	hash   uint64
	flows  [2]flow

	// the proxy's end
	in       []byte
	err      error // EOF or reset, once in is read
	closed   bool
	deadline time.Time
	wake     chan struct{} // holds a value when something has changed for Read
	watch    *watching     // an event loop reads; nil: Read does

	// the master's end
	peer    *fake.Conn
	inbox   []byte    // arrived, not carried out
	arrived time.Time // when the oldest part of inbox was written
	hungUp  bool      // close when inbox is done
	gone    bool      // closed
	newest  int       // the LOCK that came last of those carried out; 0: none
	before  int       // newest, before this packet
}

var _ net.Conn = (*simLink)(nil)

// over reports whether both ends are closed.
func (li *simLink) over() bool { return li.closed && li.gone }

// sendLocked puts data on its way. Bytes written at one instant make one message, into however
// many writes they were cut.
func (li *simLink) sendLocked(dir direction, data []byte, end endKind) *message {
	f, now := &li.flows[dir], time.Now()
	if n := len(f.queue); n > 0 && f.queue[n-1].end == noEnd && f.queue[n-1].written.Equal(now) {
		last := f.queue[n-1]
		last.data = append(last.data, data...)
		last.end = end
		return last
	}
	m := &message{data: append([]byte(nil), data...), end: end, written: now}
	f.queue = append(f.queue, m)
	li.postLocked(dir, m, li.net.delay(li.path, mix(li.hash, uint64(dir), uint64(now.UnixNano()))))
	return m
}

// postLocked makes m arrive after d, and after everything before it.
func (li *simLink) postLocked(dir direction, m *message, d time.Duration) {
	f, now := &li.flows[dir], time.Now()
	due := now.Add(d)
	if !due.After(f.last) {
		due = f.last.Add(time.Nanosecond)
	}
	if off := time.Duration(due.UnixNano()) % instants; off <= f.instant {
		due = due.Add(f.instant - off)
	} else {
		due = due.Add(f.instant - off + instants)
	}
	m.due, f.last = due, due
	li.net.post.putLocked(letter{due: due, link: li, dir: dir})
}

// pumpLocked delivers the messages that are due.
func (li *simLink) pumpLocked(dir direction) {
	f, now := &li.flows[dir], time.Now()
	for len(f.queue) > 0 && li.path.cuts[dir] == 0 && !f.queue[0].due.After(now) {
		m := f.queue[0]
		f.queue = f.queue[1:]
		if dir == up {
			li.reachMasterLocked(m)
		} else {
			li.reachProxyLocked(m)
		}
	}
}

// resumeLocked goes on after a cut.
func (li *simLink) resumeLocked(dir direction) {
	if f := &li.flows[dir]; len(f.queue) > 0 {
		now := time.Now()
		f.last = time.Time{}
		li.postLocked(dir, f.queue[0], li.net.delay(li.path, mix(li.hash, 'h', uint64(now.UnixNano()))))
		for _, m := range f.queue[1:] {
			if m.due.After(f.last) {
				f.last = m.due
			}
		}
	}
}

// reachProxyLocked hands m to the proxy. After the end of the connection it drops m: the master
// may still answer bytes that were on their way.
func (li *simLink) reachProxyLocked(m *message) {
	if li.closed || li.err != nil {
		return
	}
	if !m.asked.IsZero() {
		li.hearLocked(m.asked, m.record)
	}
	li.in = append(li.in, m.data...)
	switch m.end {
	case fin:
		li.err = io.EOF
	case rst:
		li.in, li.err = nil, syscall.ECONNRESET
	}
	li.signalLocked()
}

// signalLocked wakes the reader after a change.
func (li *simLink) signalLocked() {
	if li.watch != nil {
		li.net.post.turns = append(li.net.post.turns, li)
		return
	}
	select {
	case li.wake <- struct{}{}:
	default:
	}
}

// resetLocked breaks the link like a box in between. Messages on their way to the master may
// still get there in part.
func (li *simLink) resetLocked() {
	li.truncateLocked(mix(li.hash, 'r', uint64(time.Now().UnixNano())))
	li.flows[down].queue = nil
	li.sendLocked(up, nil, rst)
	li.sendLocked(down, nil, rst)
}

// truncateLocked loses the last part of the bytes on their way to the master: messages, and the
// end of one.
func (li *simLink) truncateLocked(h uint64) {
	f := &li.flows[up]
	keep := int(h % uint64(len(f.queue)+1))
	if keep < len(f.queue) {
		part := f.queue[keep]
		part.data, part.end = part.data[:mix(h, 1)%uint64(len(part.data)+1)], noEnd
		part.written = time.Time{}
		f.queue = f.queue[:keep+1]
	}
}

// closeLocked closes the proxy's end. Bytes on their way arrive, are late or are lost, and so is
// the end itself.
func (li *simLink) closeLocked() {
	if li.closed {
		return
	}
	li.closed = true
	now := time.Now()
	if li.watch != nil {
		li.net.post.putLocked(letter{due: now.Add(time.Nanosecond), do: li.signalLocked})
	} else {
		li.signalLocked()
	}
	h := mix(li.hash, 'c', uint64(now.UnixNano()))
	f := &li.flows[up]
	switch kind := h % 8; {
	case kind < 2: // everything arrives, then the end
		li.sendLocked(up, nil, fin)
	case kind < 4: // an RST, and a part of the bytes before it is lost
		li.truncateLocked(mix(h, 1))
		li.sendLocked(up, nil, rst)
	case kind < 5: // neither bytes nor the end arrive
		f.queue = nil
	default: // all arrives, but seconds later
		late := time.Duration(unit(mix(h, 2)) * float64(6*time.Second))
		li.sendLocked(up, nil, fin)
		f.last = time.Time{}
		for _, m := range f.queue {
			li.postLocked(up, m, late)
		}
	}
}

// Read is for the proxy.
func (li *simLink) Read(p []byte) (int, error) {
	for {
		n, until, err := li.take(p)
		if n > 0 || err != nil {
			return n, err
		}
		if until.IsZero() {
			<-li.wake
			continue
		}
		t := time.NewTimer(time.Until(until))
		select {
		case <-li.wake:
			t.Stop()
		case <-t.C:
			return 0, os.ErrDeadlineExceeded
		}
	}
}

// take reads the bytes that have arrived. Without any it returns until when to wait for them.
func (li *simLink) take(p []byte) (n int, until time.Time, err error) {
	li.net.mu.Lock()
	defer li.net.mu.Unlock()
	switch {
	case li.closed:
		return 0, until, net.ErrClosed
	case len(li.in) > 0:
		n = copy(p, li.in)
		li.in = li.in[n:]
		return n, until, nil
	}
	return 0, li.deadline, li.err
}

func (li *simLink) Write(p []byte) (int, error) {
	li.net.mu.Lock()
	defer li.net.mu.Unlock()
	return li.writeLocked(p)
}

func (li *simLink) writeLocked(p []byte) (int, error) {
	switch {
	case li.closed:
		return 0, net.ErrClosed
	case li.err != nil:
		return 0, syscall.EPIPE
	}
	li.sendLocked(up, p, noEnd)
	return len(p), nil
}

// Close is the proxy's.
func (li *simLink) Close() error {
	li.net.mu.Lock()
	defer li.net.mu.Unlock()
	li.closeLocked()
	return nil
}

func (li *simLink) SetDeadline(t time.Time) error {
	li.net.mu.Lock()
	defer li.net.mu.Unlock()
	li.deadline = t
	return nil
}

func (li *simLink) SetReadDeadline(t time.Time) error { return li.SetDeadline(t) }
func (li *simLink) SetWriteDeadline(time.Time) error  { return nil }
func (li *simLink) LocalAddr() net.Addr               { return &net.TCPAddr{} }
func (li *simLink) RemoteAddr() net.Addr              { return &net.TCPAddr{} }
