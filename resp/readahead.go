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

// Limits of what is read ahead while a lock command runs or waits for its turn: a client that
// writes without reading must be read, or the upstream's replies, which stand in the way of ours,
// would never leave. Each connection has aheadOwn, and aheadShared is there for those who need
// more; while that is used up they are not read. A client that sends more than aheadMost is
// disconnected, as Redis does with one that exceeds its query buffer's limit: nobody would learn
// that it has left, with what it sent before still to be read.
const (
	aheadOwn    = netpoll.ChunkSize
	aheadMost   = 64 << 20
	aheadShared = 256 << 20
)

// aheadDelay is how long a command may take before reading ahead begins. Most are over by then.
const aheadDelay = 5 * time.Millisecond

var aheadUsed atomic.Int64 // of aheadShared, by all connections

var errAheadMost = errors.New("the client sent too much behind a lock command")

// readAhead reads the client while the pump does not.
type readAhead struct {
	conn   net.Conn
	polled *netpoll.Conn  // conn, where a loop watches it
	timer  *time.Timer    // nil until it is needed first
	behind []byte         // what was read before
	ended  chan struct{}  // closed when err is set
	gone   func()         // called when the client ended its input or said QUIT, perhaps more than once
	taken  *atomic.Uint64 // bytes that the pump has read, or taken from here

	in netpoll.Buffer // of who reads

	mu     sync.Mutex
	quits  quitSearch
	armed  bool             // timer is to begin
	stops  bool             // reading is to end
	done   chan struct{}    // closed when reading has ended; nil while nobody reads
	chunks []netpoll.Buffer // of netpoll.ChunkSize at most
	size   int              // of all chunks together
	shared int64            // taken from aheadShared
	err    error            // reading ended for good
}

// start begins to read ahead, after aheadDelay, until stop. behind is what was read already; it
// must not change until then.
func (a *readAhead) start(behind []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.behind, a.armed = behind, true
	if a.timer == nil {
		a.timer = time.AfterFunc(aheadDelay, a.begin)
		return
	}
	a.timer.Reset(aheadDelay)
}

// startNow is start without the delay.
func (a *readAhead) startNow(behind []byte) {
	a.mu.Lock()
	a.behind, a.armed = behind, true
	a.mu.Unlock()
	a.begin()
}

// begin is called by timer. The timer may go off while it is stopped. begin may then find that the
// next command runs, and read ahead too early for that one, which does no harm.
func (a *readAhead) begin() {
	a.mu.Lock()
	if !a.armed {
		a.mu.Unlock()
		return
	}
	a.armed, a.stops, a.done = false, false, make(chan struct{})
	a.findQuitLocked(a.behind, a.taken.Load())
	ended := a.err != nil
	a.mu.Unlock()
	switch {
	case ended:
		a.over(nil)
	case a.polled != nil:
		a.stopped(os.ErrDeadlineExceeded)
	default:
		for !a.over(netpoll.Receive(a.conn, &a.in, a.use)) {
		}
	}
}

// stopped is called when the loop watches no more. It watches again where that was not for stop.
func (a *readAhead) stopped(err error) {
	if !a.over(err) {
		a.polled.Watch(&a.in, a.use, a.stopped)
	}
}

// stop ends reading ahead. The bytes read are then there for take.
func (a *readAhead) stop() {
	a.mu.Lock()
	armed, done := a.armed, a.done
	a.armed, a.stops = false, true
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
		a.keepLocked() // what was left as there was no room
		a.mu.Unlock()
	}
}

// use keeps what was read. It does not block.
func (a *readAhead) use() (stop bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	b := a.in.Bytes()
	a.findQuitLocked(b, a.taken.Load()+uint64(a.size+len(b)))
	return !a.allowLocked(len(a.in.Bytes())) || a.keepLocked()
}

// keepLocked moves what was read to the chunks. It reports whether there is too much of it.
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

// allowLocked reports whether n more bytes may be kept, taking their share of what is there for
// all.
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

// over is called when reading has ended, for good or not. It returns false if reading is to go on:
// the read deadline was meant to wake the pump, which does not read now.
func (a *readAhead) over(err error) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.size > aheadMost:
		err = errAheadMost
	case errors.Is(err, os.ErrDeadlineExceeded) && !a.stops:
		a.conn.SetReadDeadline(time.Time{})
		return false
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = nil
	}
	a.endLocked(err)
	close(a.done)
	return true
}

// end notes that the client's input has ended with err, behind everything that the pump has read.
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
		a.gone()
	}
}

// findQuit reports a QUIT in b, bytes that the pump has read and not dealt with.
func (a *readAhead) findQuit(b []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.findQuitLocked(b, a.taken.Load())
}

// findQuitLocked reports a QUIT in b, which ends where the client has sent end bytes.
func (a *readAhead) findQuitLocked(b []byte, end uint64) {
	if a.quits.find(b, end) {
		a.gone()
	}
}

// quitSearch looks for QUIT in what a client has sent behind commands that run. It looks at
// nothing twice.
type quitSearch struct {
	finder scan.QuitFinder
	to     uint64 // how many of the client's bytes it has got to
}

// find reports whether there is a QUIT in b, which begins with a request and ends where the client
// has sent end bytes, that it did not report before.
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

// inputEnded returns why the client is known to send no more; nil: it may.
func (a *readAhead) inputEnded() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.err
}

// drop forgets what was read and never taken. Reading must be over.
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
