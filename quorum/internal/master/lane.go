// Package master keeps the one connection to a master, the lane, and knows whether the master
// votes. A [Lane] carries lock operations of many callers in packets, in order for each token.
// After an outage it repairs the master: it sends the releases and locks that the master has
// missed.
package master

import (
	"sync"
	"time"

	"go.uber.org/zap"

	"lockproxy/quorum/internal/wire"
	"lockproxy/stat"
)

// Lane is the one connection to a master, and everything that is known about the master. Ask and
// Release queue operations, Flush writes them; Run keeps the connection. Its methods are safe for
// concurrent use.
//
// Each part owns one piece of state and has no lock: mu guards all of them.
type Lane struct {
	cfg   LaneConfig
	ready latch // closed as soon as the master votes, is kept out of the vote or cannot be reached

	mu      sync.Mutex
	conn    *conn   // nil without a connection
	queue   queue   // requests without an answer
	packets packets // how the queue becomes bytes
	repairs repairs // writes that the master has missed
	pace    pace    // how fast the master answers
	server  server  // evidence about the server at the other end
	status  status  // which operations the lane takes, and what operators see
}

// New returns a lane. Run connects it.
func New(c LaneConfig) *Lane {
	return &Lane{cfg: c, ready: latch{done: make(chan struct{})}, server: newServer(), status: newStatus(),
		repairs: repairs{start: c.Start}}
}

// latch is a channel that is closed once.
type latch struct {
	done chan struct{}
	once sync.Once
}

func (l *latch) close() { l.once.Do(func() { close(l.done) }) }

// Name returns the operator's name for the master.
func (l *Lane) Name() string { return l.cfg.name() }

// Options says how the master is reached.
func (l *Lane) Options() *Options { return l.cfg.Options }

// Ready is closed as soon as it is known whether the master votes, or that it cannot be reached.
func (l *Lane) Ready() <-chan struct{} { return l.ready.done }

// Ask queues op; Flush writes it. After an error, the reason why the lane does not take op, to is
// not called. Begun of an Acquire is by the lane's clock, 0 for now. It must be right before Ask.
func (l *Lane) Ask(op wire.Op, to Receiver) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.status.refusal(op.Kind, l.queue.n); err != nil {
		return err
	}
	l.pushLocked(op, to)
	return nil
}

// pushLocked queues op.
func (l *Lane) pushLocked(op wire.Op, to Receiver) {
	if op.Kind == wire.Acquire && op.Begun == 0 {
		op.Begun = l.cfg.clock()
	}
	l.queue.push(op, to)
}

// AskFull is Ask for an acquire that SetRoom leaves no room for.
func (l *Lane) AskFull(op wire.Op, to Receiver) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.status.refusal(op.Kind, l.queue.n); err != nil && (err != ErrFull || l.queue.n >= maxHolders) {
		return err
	}
	l.pushLocked(op, to)
	return nil
}

// Flush writes the queue. It never waits for the socket: the writer takes over the bytes that the
// socket does not take at once. A caller that queues several operations flushes once after them,
// so that requests of many callers travel together.
//
// For the same reason operations that are queued while several wait for their answers are written
// by the Flush that follows these answers. If that takes too long, the caller must call Flush
// again after left; 0: the queue is empty or being written.
func (l *Lane) Flush() (left time.Duration) {
	l.mu.Lock()
	if left = l.packets.wait(&l.queue, l.cfg.clock()); left > 0 {
		l.mu.Unlock()
		return left
	}
	c := l.conn
	write := c.beginWriteLocked()
	l.mu.Unlock()
	if write {
		c.flush()
	}
	return 0
}

// SetRoom sets how many requests may wait on the lane before it takes no more acquires: its master
// is slower than the majority, or busy with operations of holders. The lane sends it the missed
// locks later, if they are still held then.
func (l *Lane) SetRoom(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.status.room = n
}

// Unanswered returns how many requests wait on the lane, and whether its master votes.
func (l *Lane) Unanswered() (n int, voting bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.queue.n, l.status.voting
}

// MayServe returns nil if the master votes, or the reason why not. A master that must not vote is
// not asked anything else either.
func (l *Lane) MayServe() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.status.voting {
		return l.status.reason
	}
	return nil
}

// BeginClose makes the lane refuse new work, releases excepted.
func (l *Lane) BeginClose() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.status.closing = true
}

// PendingReleases counts the releases that the master, which is connected, has not answered yet.
func (l *Lane) PendingReleases() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.status.up {
		return 0
	}
	return l.repairs.active()
}

// Status returns a snapshot of the master for operators.
func (l *Lane) Status() stat.Master {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.status.snapshot()
	s.Name, s.Repairs, s.Unanswered, s.Slow = l.Name(), l.repairs.n, l.queue.n, l.pace.slow
	return s
}

// RTT returns the shortest round trip of a PING in the last minutes, and the longest of any packet
// in the last seconds. Both are 0 if there was none.
func (l *Lane) RTT() (least, longest time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.pace.roundTrips(time.Now())
}

// Silence returns for how long the master has made no progress: the time since it was sent the
// oldest command that it has not answered, or since its last bytes if these came later. It is 0 if
// the master owes no answer, or if bytes of it wait to be read: then this process is the slow one.
func (l *Lane) Silence() time.Duration {
	l.mu.Lock()
	q, c := &l.queue, l.conn
	if c == nil || q.sent() == 0 {
		l.mu.Unlock()
		return 0
	}
	sent := q.at(0).sent
	l.mu.Unlock()
	silence := l.cfg.clock() - max(sent, time.Duration(c.heard.Load()))
	if silence > 0 && c.unread != nil && c.unread() {
		return 0
	}
	return max(silence, 0)
}

// Heard returns how long ago the last bytes of the master came on this connection. ok is false if
// none have come, or if there is no connection.
func (l *Lane) Heard() (ago time.Duration, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn == nil {
		return 0, false
	}
	heard := time.Duration(l.conn.heard.Load())
	return l.cfg.clock() - heard, heard > 0
}

// NoteLate notes that the master took so long for an answer that was too late to count. vote: it
// was the answer to an acquire. The master is slow if a tenth of its votes are late, or a PING
// is.
func (l *Lane) NoteLate(took time.Duration, vote bool) {
	l.mu.Lock()
	if vote {
		l.status.shown.Late++
	}
	began := l.pace.noteLate(took, vote, l.cfg.clock())
	l.mu.Unlock()
	if began {
		l.cfg.Log.Warn("master is slow: it answers later than the majority needs", l.cfg.field(), zap.Duration("took", took))
	}
}

// Probe makes the lane probe its master, unless it does so already.
func (l *Lane) Probe() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.status.up {
		l.server.wantProbe()
	}
}
