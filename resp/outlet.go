package resp

import (
	"net"
	"sync"
)

// outlet is the way to the client. Two goroutines write: the copier what the upstream says, and redcon's the replies of our own,
// which may only stand between two frames of the upstream.
//
// Safe for concurrent use by one of each.
type outlet struct {
	conn net.Conn

	mu      sync.Mutex
	changed sync.Cond
	between bool   // what was written ends between two frames
	insert  []byte // a reply of ours that waits for the end of a frame; nil if none does
	err     error  // nothing can be written any more
}

func (o *outlet) init(conn net.Conn) {
	o.conn, o.between, o.changed.L = conn, true, &o.mu
}

// forward writes bytes of the upstream. The first boundary bytes of b end between two frames (0: no frame ends in b), and the reply that
// may be waiting is put there.
func (o *outlet) forward(b []byte, boundary int) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.insert != nil && (boundary > 0 || o.between) {
		o.writeLocked(b[:boundary])
		o.writeLocked(o.insert)
		b, o.insert = b[boundary:], nil
		o.changed.Broadcast()
		boundary = 0
		o.between = true
	}
	if len(b) > 0 {
		o.writeLocked(b)
		o.between = boundary == len(b)
	}
	return o.err
}

// reply writes b, a reply of ours, as soon as no frame of the upstream is half written. It returns when that is done.
func (o *outlet) reply(b []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.between {
		o.writeLocked(b)
		return o.err
	}
	o.insert = b
	for o.insert != nil && o.err == nil {
		o.changed.Wait()
	}
	return o.err
}

// markBoundary notes that the bytes written so far end between two frames.
func (o *outlet) markBoundary() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.between = true
}

func (o *outlet) writeLocked(b []byte) {
	if o.err != nil || len(b) == 0 {
		return
	}
	if _, err := o.conn.Write(b); err != nil {
		o.err = err
	}
}

// close makes every later write return err, and a reply that waits.
func (o *outlet) close(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err == nil {
		o.err = err
	}
	o.changed.Broadcast()
}
