package resp

import (
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"

	"lockproxy/resp/internal/netpoll"
)

// errOpaque: frame boundaries are unknown, so no reply can be inserted.
var errOpaque = errors.New("what the connection carries is not known any more")

// tryWriter is a connection that a loop watches; *netpoll.Socket is one.
type tryWriter interface {
	// TryWrite writes as much of b as can be written at once.
	TryWrite(b []byte) (n int, err error)
}

// outbound writes to the client. The copier forwards the upstream's bytes. The pump inserts our
// replies, and other goroutines our pushes, between two frames of the upstream.
//
// Safe for concurrent use; forwardLocked by one goroutine only.
type outbound struct {
	conn     net.Conn
	polled   tryWriter // conn, if a loop watches it
	progress *progress

	mu      sync.Mutex
	changed sync.Cond
	between bool        // the bytes written so far end between two frames
	insert  []byte      // replies and pushes of our own that wait for the end of a frame
	put     uint64      // bytes that were ever appended to insert
	done    uint64      // how many of them are written
	err     error       // the first failure; later writes return it
	noReply atomic.Bool // frame boundaries are unknown from here on
	rest    []byte      // bytes that conn did not take at once; they are written first
}

func (o *outbound) init(conn net.Conn, progress *progress) {
	o.conn, o.progress, o.between, o.changed.L = conn, progress, true, &o.mu
	o.polled, _ = conn.(tryWriter)
}

// enter locks mu, for the copier. On a loop it does not wait: it returns false, and does not lock,
// if mu is taken or if other bytes must be written first.
func (o *outbound) enter(onLoop bool) bool {
	if !onLoop {
		o.mu.Lock()
		o.writeAllLocked(nil)
		return true
	}
	if !o.mu.TryLock() {
		return false
	}
	if len(o.insert) > 0 || len(o.rest) > 0 {
		o.mu.Unlock()
		return false
	}
	return true
}

// leave unlocks after enter. The next caller that may block writes the rest.
func (o *outbound) leave() { o.mu.Unlock() }

// forwardLocked writes bytes of the upstream. The first boundary bytes of b end between two frames
// (0: no frame ends in b); waiting insertions are written there. onLoop: it must not block.
//
// The copier holds the lock from before it counts a reply until the reply is written: as soon as
// a reply is counted a lock command may run, and its own reply must wait.
func (o *outbound) forwardLocked(b []byte, boundary int, onLoop bool) error {
	if len(o.insert) > 0 && o.noReply.Load() {
		o.insert = nil
		o.changed.Broadcast() // endReplies may have called it just before a reply began to wait
	}
	if len(o.insert) > 0 && (boundary > 0 || o.between) {
		o.writeLocked(b[:boundary], onLoop)
		o.between = true
		o.insertLocked(onLoop)
		b, boundary = b[boundary:], 0
	}
	if len(b) > 0 {
		o.writeLocked(b, onLoop)
		o.between = boundary == len(b)
	}
	return o.err
}

// reply writes b, frames of our own, when no frame of the upstream is half written. It returns
// when b is written.
func (o *outbound) reply(b []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.noReply.Load() {
		return errOpaque
	}
	if o.between && len(o.insert) == 0 {
		o.writeAllLocked(b)
		return o.err
	}
	o.insert = append(o.insert, b...)
	o.put += uint64(len(b))
	end := o.put
	if o.between {
		o.insertLocked(false)
	}
	for o.done < end && o.err == nil && !o.noReply.Load() {
		o.changed.Wait()
	}
	if o.done < end && o.err == nil {
		return errOpaque
	}
	return o.err
}

// tryReply is reply for a caller that must not wait. It returns nil if b is written. Otherwise a
// goroutine that may wait calls wait, which returns what reply would. b must stay as it is until
// then.
func (o *outbound) tryReply(b []byte) (wait func() error) {
	if !o.mu.TryLock() {
		return func() error { return o.reply(b) }
	}
	defer o.mu.Unlock()
	if o.noReply.Load() || !o.between || len(o.insert) > 0 || len(o.rest) > 0 {
		return func() error { return o.reply(b) }
	}
	o.writeSomeLocked(b)
	if o.err != nil || len(o.rest) > 0 {
		return o.flush
	}
	return nil
}

// flush writes the rest.
func (o *outbound) flush() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.writeAllLocked(nil)
	return o.err
}

// insertLocked writes the waiting insertions.
func (o *outbound) insertLocked(onLoop bool) {
	o.writeLocked(o.insert, onLoop)
	o.insert, o.done = nil, o.put
	o.changed.Broadcast()
}

func (o *outbound) writeLocked(b []byte, onLoop bool) {
	if onLoop {
		o.writeSomeLocked(b)
		return
	}
	o.writeAllLocked(b)
}

// writeAllLocked writes the rest, then b. It may block.
func (o *outbound) writeAllLocked(b []byte) {
	rest := o.rest
	o.rest = nil
	o.blockLocked(rest)
	o.blockLocked(b)
}

func (o *outbound) blockLocked(b []byte) {
	if o.err != nil || len(b) == 0 {
		return
	}
	o.progress.writing.Store(true)
	n, err := o.conn.Write(b)
	o.progress.writing.Store(false)
	o.wroteLocked(n, err)
}

// writeSomeLocked writes as much as conn takes at once, and keeps the rest.
func (o *outbound) writeSomeLocked(b []byte) {
	if o.err != nil || len(b) == 0 {
		return
	}
	n := 0
	if len(o.rest) == 0 {
		var err error
		n, err = o.polled.TryWrite(b)
		o.wroteLocked(n, err)
	}
	o.rest = append(o.rest, b[n:]...)
}

func (o *outbound) wroteLocked(n int, err error) {
	o.progress.written.Add(uint64(n))
	if err != nil {
		o.err = err
	}
}

// close makes every later write, and a reply that waits, return err.
func (o *outbound) close(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err == nil {
		o.err = err
	}
	o.changed.Broadcast()
}

// endReplies ends the insertion of replies. It does not wait for mu, which a writer that the
// client keeps waiting may hold.
func (o *outbound) endReplies() {
	o.noReply.Store(true)
	o.changed.Broadcast()
}

// delivery owns the function that a handler has set with OnUndelivered. It is the pump's; while a
// begun command runs, it is its caller's.
type delivery struct {
	pending     func() // of the running command
	unconfirmed func() // of the last reply, until the client sends more
}

// finish ends the running command; err is not nil if its reply was not written.
func (d *delivery) finish(err error) {
	f := d.pending
	d.pending = nil
	switch {
	case f == nil:
	case err != nil:
		f()
	default:
		d.unconfirmed = f
	}
}

// inputEnded is called with the end of the client's input, which may have come while a command
// ran. If the client had closed the connection by then, its system refused the last reply, which
// counts as not delivered. Only an orderly end counts: after a reset the client may have read the
// reply, and its system not yet acknowledged it.
func (d *delivery) inputEnded(err error, client net.Conn) {
	f := d.unconfirmed
	d.unconfirmed = nil
	if f != nil && err == io.EOF && netpoll.Refused(client) {
		f()
	}
}
