package resp

import (
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"lockproxy/resp/internal/netpoll"
	"lockproxy/resp/internal/scan"
)

// Limits on reading ahead while a lock command runs or waits. A client that writes without reading
// must be read, or the upstream's replies, which precede ours, would never leave. Each connection
// has aheadOwn. Connections that need more take it from aheadShared; one that finds it used up
// is not read again until its command ends. A client that sends more than aheadMost is
// disconnected, as Redis does with a client that exceeds its query buffer.
const (
	aheadOwn    = netpoll.ChunkSize
	aheadMost   = 64 << 20
	aheadShared = 256 << 20
)

// aheadDelay is how long a command runs before reading ahead begins. Most have ended by then.
const aheadDelay = 5 * time.Millisecond

var aheadUsed atomic.Int64 // of aheadShared, by all connections

var errAheadMost = errors.New("the client sent too much after a lock command")

// readAhead reads the client while the pump does not. Safe for concurrent use.
type readAhead struct {
	conn   net.Conn
	polled *netpoll.Socket // conn, if a loop watches it
	timer  *time.Timer     // nil until it is needed first
	before []byte          // bytes that were read before
	ended  chan struct{}   // closed when err is set
	left   func()          // called when the client ended its input or said QUIT, perhaps more than once
	taken  *atomic.Uint64  // bytes that the pump has read, or taken from here

	in netpoll.Buffer // the reader's

	mu     sync.Mutex
	quits  quitSearch
	phase  aheadPhase
	done   chan struct{}    // closed when reading has ended; nil while there is no reader
	chunks []netpoll.Buffer // of netpoll.ChunkSize at most
	size   int              // of all chunks together
	shared int64            // taken from aheadShared
	err    error            // reading ended for good
}

// aheadPhase is a stage of reading ahead.
type aheadPhase uint8

const (
	aheadIdle     aheadPhase = iota // not started
	aheadArmed                      // starts when aheadDelay has passed
	aheadReading                    // reads
	aheadStopping                   // stop was called, and start was not since
)

// start begins to read ahead, after aheadDelay, until stop. before has the bytes that were read
// already; it must not change until then.
func (a *readAhead) start(before []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.before, a.phase = before, aheadArmed
	if a.timer == nil {
		a.timer = time.AfterFunc(aheadDelay, a.begin)
		return
	}
	a.timer.Reset(aheadDelay)
}

// startNow is start without the delay.
func (a *readAhead) startNow(before []byte) {
	a.mu.Lock()
	a.before, a.phase = before, aheadArmed
	a.mu.Unlock()
	a.begin()
}

// begin is called by timer, or by startNow, which needs a connection that a loop watches:
// otherwise begin reads, and blocks. The timer may go off while stop stops it. begin may then find
// that the next command runs, and read ahead too early for that one, which does no harm.
func (a *readAhead) begin() {
	a.mu.Lock()
	if a.phase != aheadArmed {
		a.mu.Unlock()
		return
	}
	a.phase, a.done = aheadReading, make(chan struct{})
	a.findQuitLocked(a.before, a.taken.Load())
	ended := a.err != nil
	a.mu.Unlock()
	switch {
	case ended:
		a.readerEnded(nil)
	case a.polled != nil:
		a.watchEnded(os.ErrDeadlineExceeded)
	default:
		for !a.readerEnded(netpoll.Receive(a.conn, &a.in, a.keep)) {
		}
	}
}

// watchEnded is called when the loop watches no more. Unless stop is the cause, it watches again.
func (a *readAhead) watchEnded(err error) {
	if !a.readerEnded(err) {
		a.polled.Watch(&a.in, a.keep, a.watchEnded)
	}
}

// stop ends reading ahead. The bytes read are then there for take.
func (a *readAhead) stop() {
	a.mu.Lock()
	armed, done := a.phase == aheadArmed, a.done
	a.phase = aheadStopping
	a.mu.Unlock()
	if armed {
		a.timer.Stop()
	}
	if done != nil {
		a.conn.SetReadDeadline(time.Unix(1, 0)) // wakes the reader
		<-done
		a.conn.SetReadDeadline(time.Time{})
		a.mu.Lock()
		a.done = nil
		a.keepLocked() // bytes for which there was no room
		a.mu.Unlock()
	}
}

// readLast reads once more, without waiting, and looks for the end of the input. The reader must
// have ended. It returns how many bytes are there for take. If no loop can watch the client, it
// cannot read without waiting, and does not.
func (a *readAhead) readLast() (size int) {
	var err error
	if a.polled != nil {
		var n int
		if n, err = a.polled.TryRead(&a.in); n > 0 && n < netpoll.ChunkSize {
			_, err = a.polled.TryRead(&a.in)
		}
	}
	a.keep()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.keepLocked() // bytes for which there was no room
	a.endLocked(err)
	return a.size
}

// keep moves the bytes in a.in to the chunks, up to the limits. It does not block.
func (a *readAhead) keep() (stop bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	b := a.in.Bytes()
	a.findQuitLocked(b, a.taken.Load()+uint64(a.size+len(b)))
	return !a.allowLocked(len(a.in.Bytes())) || a.keepLocked()
}

// keepLocked moves the bytes in a.in to the chunks. It reports whether they exceed aheadMost.
func (a *readAhead) keepLocked() (tooMuch bool) {
	for b := a.in.Bytes(); len(b) > 0; {
		if n := len(a.chunks); n == 0 || len(a.chunks[n-1].Bytes()) == netpoll.ChunkSize {
			a.chunks = append(a.chunks, netpoll.Buffer{})
		}
		last := &a.chunks[len(a.chunks)-1]
		n := copy(last.Room(), b)
		last.Grew(n)
		a.size += n
		b = b[n:]
	}
	a.in.Skip(len(a.in.Bytes()))
	a.in.Release()
	return a.size > aheadMost
}

// allowLocked reports whether n more bytes may be kept, and counts those beyond aheadOwn in
// aheadUsed.
func (a *readAhead) allowLocked(n int) bool {
	want := int64(max(0, a.size+n-aheadOwn)) - a.shared
	if want <= 0 {
		return true
	}
	if aheadUsed.Add(want) > aheadShared {
		aheadUsed.Add(-want)
		return false
	}
	a.shared += want
	return true
}

// readerEnded is called when the reader has ended. It returns false if it must go on: the read
// deadline was meant to wake the pump, which does not read now.
func (a *readAhead) readerEnded(err error) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.size > aheadMost:
		err = errAheadMost
	case errors.Is(err, os.ErrDeadlineExceeded) && a.phase != aheadStopping:
		a.conn.SetReadDeadline(time.Time{})
		return false
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = nil
	}
	a.endLocked(err)
	close(a.done)
	return true
}

// end notes that the client's input has ended with err, after all bytes that the pump has read.
func (a *readAhead) end(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.endLocked(err)
}

func (a *readAhead) endLocked(err error) {
	if err != nil && a.err == nil {
		a.err = err
		close(a.ended)
	}
	if a.err != nil {
		a.left()
	}
}

// findQuit reports a QUIT in b, bytes that the pump has read and not processed.
func (a *readAhead) findQuit(b []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.findQuitLocked(b, a.taken.Load())
}

// findQuitLocked reports a QUIT in b. The client has sent end bytes when b ends.
func (a *readAhead) findQuitLocked(b []byte, end uint64) {
	if a.quits.find(b, end) {
		a.left()
	}
}

// quitSearch looks for QUIT in the bytes that a client sends while commands run. It looks at each
// byte once.
type quitSearch struct {
	finder scan.QuitFinder
	to     uint64 // how many of the client's bytes it has passed
}

// find reports whether b has a QUIT that it did not report before. b begins with a request; the
// client has sent end bytes when b ends.
func (q *quitSearch) find(b []byte, end uint64) bool {
	begin := end - uint64(len(b))
	switch {
	case q.to >= end:
		return false
	case q.to < begin:
		q.finder, q.to = scan.QuitFinder{}, begin
	}
	b = b[q.to-begin:]
	q.to = end
	return q.finder.Feed(b)
}

// take moves the next bytes to x, which is empty. It reports whether there were any; err, once
// there are none, is how reading ended.
func (a *readAhead) take(x *netpoll.Buffer) (ok bool, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.chunks) == 0 {
		return false, a.err
	}
	c := a.chunks[0]
	a.chunks[0] = netpoll.Buffer{}
	a.chunks = a.chunks[1:]
	n := len(c.Bytes())
	a.size -= n
	back := min(a.shared, int64(n))
	a.shared -= back
	aheadUsed.Add(-back)
	x.Hold(c)
	return true, nil
}

// readErr returns why the reader has stopped; nil: it has not. Bytes that it read may still wait.
func (a *readAhead) readErr() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.err
}

// drop forgets the bytes that were read and never taken. The reader must have ended.
func (a *readAhead) drop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	aheadUsed.Add(-a.shared)
	for i := range a.chunks {
		a.chunks[i].Skip(len(a.chunks[i].Bytes()))
		a.chunks[i].Release()
	}
	a.shared, a.size, a.chunks = 0, 0, nil
}
