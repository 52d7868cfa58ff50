package resp

import (
	"errors"
	"net"
	"sync"
	"sync/atomic"
)

// errOpaque is why a reply of our own cannot be written: nobody can tell where the upstream's
// frames end.
var errOpaque = errors.New("what the connection carries is not known any more")

// tryWriter is a connection that a loop watches; *netpoll.Conn is one.
type tryWriter interface {
	// TryWrite writes as much of b as can be written at once.
	TryWrite(b []byte) (n int, err error)
}

// clientWriter is the way to the client. The copier writes what the upstream says. The pump writes
// replies of our own, and others write pushes of our own. Both may only stand between two frames
// of the upstream.
//
// Safe for concurrent use; forwardLocked by one goroutine only.
type clientWriter struct {
	conn     net.Conn
	polled   tryWriter // conn, where a loop watches it
	progress *progress

	mu      sync.Mutex
	changed sync.Cond
	between bool        // what was written ends between two frames
	insert  []byte      // of our own, waiting for the end of a frame
	put     uint64      // bytes that were ever appended to insert
	done    uint64      // how many of them are written
	err     error       // nothing can be written any more
	noReply atomic.Bool // nothing of our own can be written any more
	onLoop  bool        // whoever holds the mutex must not block
	rest    []byte      // what conn did not take at once; before anything else is written
}

func (o *clientWriter) init(conn net.Conn, progress *progress) {
	o.conn, o.progress, o.between, o.changed.L = conn, progress, true, &o.mu
	o.polled, _ = conn.(tryWriter)
}

// enter locks mu, for the copier. On a loop it does not wait: it returns false, and does not lock,
// if mu is taken or if something waits to be written first.
func (o *clientWriter) enter(onLoop bool) bool {
	if !onLoop {
		o.mu.Lock()
		o.writeLocked(nil)
		return true
	}
	if !o.mu.TryLock() {
		return false
	}
	if len(o.insert) > 0 || len(o.rest) > 0 {
		o.mu.Unlock()
		return false
	}
	o.onLoop = true
	return true
}

// leave unlocks after enter. What conn did not take on a loop is written by the next who may
// block.
func (o *clientWriter) leave() {
	o.onLoop = false
	o.mu.Unlock()
}

// forwardLocked writes bytes of the upstream. The first boundary bytes of b end between two frames
// (0: no frame ends in b), and what is waiting is put there.
//
// The copier holds the lock, from before it counts a reply until the reply is written: as soon as
// it is counted a lock command may run, whose own reply then must wait.
func (o *clientWriter) forwardLocked(b []byte, boundary int) error {
	if o.noReply.Load() {
		o.insert = nil
	}
	if len(o.insert) > 0 && (boundary > 0 || o.between) {
		o.writeLocked(b[:boundary])
		o.between = true
		o.insertLocked()
		b, boundary = b[boundary:], 0
	}
	if len(b) > 0 {
		o.writeLocked(b)
		o.between = boundary == len(b)
	}
	return o.err
}

// reply writes b, frames of our own, as soon as no frame of the upstream is half written. It
// returns when that is done.
func (o *clientWriter) reply(b []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.noReply.Load() {
		return errOpaque
	}
	if o.between && len(o.insert) == 0 {
		o.writeLocked(b)
		return o.err
	}
	o.insert = append(o.insert, b...)
	o.put += uint64(len(b))
	end := o.put
	if o.between {
		o.insertLocked()
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
func (o *clientWriter) tryReply(b []byte) (wait func() error) {
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

// flush writes what conn did not take at once.
func (o *clientWriter) flush() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.writeLocked(nil)
	return o.err
}

// insertLocked writes what is waiting.
func (o *clientWriter) insertLocked() {
	o.writeLocked(o.insert)
	o.insert, o.done = nil, o.put
	o.changed.Broadcast()
}

func (o *clientWriter) writeLocked(b []byte) {
	if o.onLoop {
		o.writeSomeLocked(b)
		return
	}
	rest := o.rest
	o.rest = nil
	o.writeAllLocked(rest)
	o.writeAllLocked(b)
}

func (o *clientWriter) writeAllLocked(b []byte) {
	if o.err != nil || len(b) == 0 {
		return
	}
	o.progress.writing.Store(true)
	n, err := o.conn.Write(b)
	o.progress.writing.Store(false)
	o.wroteLocked(n, err)
}

// writeSomeLocked writes what conn takes at once.
func (o *clientWriter) writeSomeLocked(b []byte) {
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

func (o *clientWriter) wroteLocked(n int, err error) {
	o.progress.written.Add(uint64(n))
	if err != nil {
		o.err = err
	}
}

// close makes every later write return err, and a reply that waits.
func (o *clientWriter) close(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err == nil {
		o.err = err
	}
	o.changed.Broadcast()
}

// endReplies lets nothing of our own be written any more. It does not wait for the mutex, which is
// held while the client is written to.
func (o *clientWriter) endReplies() {
	o.noReply.Store(true)
	o.changed.Broadcast()
}
