package resp

import (
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// Limits of what is read ahead while a command of ours runs or waits for its turn: a client that writes without reading must be read, or
// the upstream's replies, which stand in the way of ours, would never leave. Each connection has aheadOwn, and aheadShared is there
// for those who need more, up to aheadMost each. At the limit the client is not read until the command is over.
const (
	aheadOwn    = 64 << 10
	aheadMost   = 64 << 20
	aheadShared = 256 << 20
)

// aheadDelay is how long a command may take before reading ahead begins. Most are over by then.
const aheadDelay = 5 * time.Millisecond

var aheadUsed atomic.Int64 // of aheadShared, by all connections

// ahead reads the client while the pump does not.
type ahead struct {
	conn   net.Conn
	timer  *time.Timer   // nil until it is needed first
	behind []byte        // what was read before
	done   chan struct{} // closed when the goroutine that reads has ended; guarded by mu, as the next
	armed  bool          // timer is to start one

	ended  chan struct{} // closed when err is set
	gone   func()        // called when the client ended its input or said QUIT, perhaps more than once
	finder quitFinder

	mu       sync.Mutex
	stopping bool
	chunks   []chunk
	shared   int64 // taken from aheadShared
	err      error // reading ended for good
}

// start begins to read ahead, after aheadDelay, until stop. behind is what was read already; it must not change until then.
func (a *ahead) start(behind []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.behind, a.armed, a.stopping = behind, true, false
	if a.timer == nil {
		a.timer = time.AfterFunc(aheadDelay, a.begin)
		return
	}
	a.timer.Reset(aheadDelay)
}

// begin is called by timer. A timer that went off while it was stopped may find that the next command has begun, for which reading ahead then
// begins too early, which does no harm.
func (a *ahead) begin() {
	a.mu.Lock()
	if !a.armed {
		a.mu.Unlock()
		return
	}
	done := make(chan struct{})
	a.armed, a.done = false, done
	a.mu.Unlock()
	defer close(done)
	a.run(a.behind)
}

// stop ends reading ahead. The bytes read are then there for take.
func (a *ahead) stop() {
	a.mu.Lock()
	armed, done := a.armed, a.done
	a.armed, a.done, a.stopping = false, nil, true
	a.mu.Unlock()
	if armed {
		a.timer.Stop()
	}
	if done != nil {
		a.conn.SetReadDeadline(time.Unix(1, 0)) // wakes the reader
		<-done
		a.conn.SetReadDeadline(time.Time{})
	}
}

func (a *ahead) run(behind []byte) {
	a.finder = quitFinder{}
	a.look(behind)
	for _, c := range a.chunks {
		a.look(c.bytes())
	}
	if a.err != nil {
		a.gone()
	}
	for {
		a.mu.Lock()
		ok := !a.stopping && a.err == nil && a.allowLocked()
		a.mu.Unlock()
		if !ok {
			return
		}
		last := &a.chunks[len(a.chunks)-1]
		n, err := a.conn.Read(last.mem[last.n:])
		a.mu.Lock()
		before := last.n
		last.n += n
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			a.err = err
			close(a.ended)
		}
		ended := a.err != nil
		a.mu.Unlock()
		a.look(last.bytes()[before:])
		if ended {
			a.gone()
		}
		if err != nil {
			return
		}
	}
}

// look reports a QUIT in the client's next bytes.
func (a *ahead) look(b []byte) {
	if a.finder.feed(b) {
		a.gone()
	}
}

// allowLocked makes room in the last chunk, if need be with a new one, and tells whether it could.
func (a *ahead) allowLocked() bool {
	if n := len(a.chunks); n > 0 && a.chunks[n-1].n < chunkSize {
		return true
	}
	switch used := len(a.chunks) * chunkSize; {
	case used+chunkSize > aheadMost:
		return false
	case used+chunkSize > aheadOwn:
		if aheadUsed.Add(chunkSize) > aheadShared {
			aheadUsed.Add(-chunkSize)
			return false
		}
		a.shared += chunkSize
	}
	a.chunks = append(a.chunks, newChunk())
	return true
}

// take moves the next bytes to x, which is empty. It reports whether there were any; err, once there are none, is how reading ended.
func (a *ahead) take(x *inbox) (ok bool, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for len(a.chunks) > 0 {
		c := a.chunks[0]
		a.chunks[0] = chunk{}
		a.chunks = a.chunks[1:]
		if a.shared > 0 {
			a.shared -= chunkSize
			aheadUsed.Add(-chunkSize)
		}
		if c.n > 0 {
			x.hold(c)
			return true, nil
		}
		c.giveBack()
	}
	return false, a.err
}

// inputEnded tells whether the client is known to send no more.
func (a *ahead) inputEnded() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.err
}

// drop forgets what was read and never taken. Reading must be over.
func (a *ahead) drop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.giveBackLocked()
}

// giveBackLocked returns what was taken of the shared memory.
func (a *ahead) giveBackLocked() {
	aheadUsed.Add(-a.shared)
	for _, c := range a.chunks {
		c.giveBack()
	}
	a.shared, a.chunks = 0, nil
}
