package quorum

import (
	"io"
	"net"
	"os"
	"syscall"
	"time"
)

// ending is what a message brings besides bytes.
type ending uint8

const (
	noEnd ending = iota
	fin          // the other end was closed
	rst          // the connection is broken
)

// message is what was written at one instant.
type message struct {
	data    []byte
	end     ending
	written time.Time
	due     time.Time
}

// flow is one direction of a wire: messages on their way, oldest first.
type flow struct {
	queue   []*message
	last    time.Time     // when the newest ever is due
	instant time.Duration // of the wire and direction, see instants
}

// wire is a connection. It is a net.Conn to the proxy; its other end belongs to a fake master. Guarded by the network's mu.
type wire struct {
	net   *network
	path  *path
	from  *simProxy
	hash  uint64
	flows [2]flow

	// the proxy's end
	in       []byte
	err      error // EOF or reset, once in is read
	closed   bool
	deadline time.Time
	wake     chan struct{} // holds a value when something has changed for Read

	// the master's end
	fake   *fakeConn
	inbox  []byte // arrived, not carried out
	hungUp bool   // close when inbox is done
	gone   bool   // closed
}

var _ net.Conn = (*wire)(nil)

// over reports whether nothing can happen on the wire any more.
func (wr *wire) over() bool { return wr.closed && wr.gone }

// sendLocked puts data on its way. What is written at one instant is one message, into however many writes it was cut.
func (wr *wire) sendLocked(dir direction, data []byte, end ending) {
	f, now := &wr.flows[dir], time.Now()
	if n := len(f.queue); n > 0 && f.queue[n-1].end == noEnd && f.queue[n-1].written.Equal(now) {
		f.queue[n-1].data = append(f.queue[n-1].data, data...)
		f.queue[n-1].end = end
		return
	}
	m := &message{data: append([]byte(nil), data...), end: end, written: now}
	f.queue = append(f.queue, m)
	wr.postLocked(dir, m, wr.net.delay(wr.path, mix(wr.hash, uint64(dir), uint64(now.UnixNano()))))
}

// postLocked makes m arrive after d, and after everything before it.
func (wr *wire) postLocked(dir direction, m *message, d time.Duration) {
	f, now := &wr.flows[dir], time.Now()
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
	wr.net.post.putLocked(letter{due: due, wire: wr, dir: dir})
}

// pumpLocked delivers what is due.
func (wr *wire) pumpLocked(dir direction) {
	f, now := &wr.flows[dir], time.Now()
	for len(f.queue) > 0 && wr.path.cuts[dir] == 0 && !f.queue[0].due.After(now) {
		m := f.queue[0]
		f.queue = f.queue[1:]
		if dir == up {
			wr.reachMasterLocked(m)
		} else {
			wr.reachProxyLocked(m)
		}
	}
}

// resumeLocked goes on after a cut.
func (wr *wire) resumeLocked(dir direction) {
	if f := &wr.flows[dir]; len(f.queue) > 0 {
		now := time.Now()
		f.last = time.Time{}
		wr.postLocked(dir, f.queue[0], wr.net.delay(wr.path, mix(wr.hash, 'h', uint64(now.UnixNano()))))
		for _, m := range f.queue[1:] {
			if m.due.After(f.last) {
				f.last = m.due
			}
		}
	}
}

func (wr *wire) reachProxyLocked(m *message) {
	if wr.closed {
		return
	}
	wr.in = append(wr.in, m.data...)
	switch m.end {
	case fin:
		wr.err = io.EOF
	case rst:
		wr.in, wr.err = nil, syscall.ECONNRESET
	}
	wr.poke()
}

func (wr *wire) poke() {
	select {
	case wr.wake <- struct{}{}:
	default:
	}
}

// resetLocked breaks the wire as a box in between does. What is on its way to the master may still get there in part.
func (wr *wire) resetLocked() {
	wr.truncateLocked(mix(wr.hash, 'r', uint64(time.Now().UnixNano())))
	wr.flows[down].queue = nil
	wr.sendLocked(up, nil, rst)
	wr.sendLocked(down, nil, rst)
}

// truncateLocked loses the last part of what is on its way to the master: messages, and the end of one.
func (wr *wire) truncateLocked(h uint64) {
	f := &wr.flows[up]
	keep := int(h % uint64(len(f.queue)+1))
	if keep < len(f.queue) {
		part := f.queue[keep]
		part.data, part.end = part.data[:mix(h, 1)%uint64(len(part.data)+1)], noEnd
		part.written = time.Time{}
		f.queue = f.queue[:keep+1]
	}
}

// closeLocked is the proxy's end being closed. What becomes of bytes on their way, and when the master is told, differs.
func (wr *wire) closeLocked() {
	if wr.closed {
		return
	}
	wr.closed = true
	wr.poke()
	now := time.Now()
	h := mix(wr.hash, 'c', uint64(now.UnixNano()))
	f := &wr.flows[up]
	switch kind := h % 8; {
	case kind < 2: // everything arrives, then the end
		wr.sendLocked(up, nil, fin)
	case kind < 4: // an RST, and what was before it is lost in part
		wr.truncateLocked(mix(h, 1))
		wr.sendLocked(up, nil, rst)
	case kind < 5: // nothing arrives, not even the end
		f.queue = nil
	default: // all arrives, but seconds later
		late := time.Duration(unit(mix(h, 2)) * float64(6*time.Second))
		wr.sendLocked(up, nil, fin)
		f.last = time.Time{}
		for _, m := range f.queue {
			wr.postLocked(up, m, late)
		}
	}
}

// Read is for the proxy.
func (wr *wire) Read(p []byte) (int, error) {
	for {
		n, until, err := wr.take(p)
		if n > 0 || err != nil {
			return n, err
		}
		if until.IsZero() {
			<-wr.wake
			continue
		}
		t := time.NewTimer(time.Until(until))
		select {
		case <-wr.wake:
			t.Stop()
		case <-t.C:
			return 0, os.ErrDeadlineExceeded
		}
	}
}

// take is what there is to read now; nothing at all: until when to wait for it.
func (wr *wire) take(p []byte) (n int, until time.Time, err error) {
	wr.net.mu.Lock()
	defer wr.net.mu.Unlock()
	switch {
	case wr.closed:
		return 0, until, net.ErrClosed
	case len(wr.in) > 0:
		n = copy(p, wr.in)
		wr.in = wr.in[n:]
		return n, until, nil
	}
	return 0, wr.deadline, wr.err
}

func (wr *wire) Write(p []byte) (int, error) {
	wr.net.mu.Lock()
	defer wr.net.mu.Unlock()
	switch {
	case wr.closed:
		return 0, net.ErrClosed
	case wr.err != nil:
		return 0, syscall.EPIPE
	}
	wr.sendLocked(up, p, noEnd)
	return len(p), nil
}

// Close is the proxy's.
func (wr *wire) Close() error {
	wr.net.mu.Lock()
	defer wr.net.mu.Unlock()
	wr.closeLocked()
	return nil
}

func (wr *wire) SetDeadline(t time.Time) error {
	wr.net.mu.Lock()
	defer wr.net.mu.Unlock()
	wr.deadline = t
	return nil
}

func (wr *wire) SetReadDeadline(t time.Time) error { return wr.SetDeadline(t) }
func (wr *wire) SetWriteDeadline(time.Time) error  { return nil }
func (wr *wire) LocalAddr() net.Addr               { return &net.TCPAddr{} }
func (wr *wire) RemoteAddr() net.Addr              { return &net.TCPAddr{} }
