package protocol

import (
	"sync/atomic"

	"lockproxy/resp/internal/scan"
)

// ReplyReader reads the upstream's bytes: it counts the replies, and removes the answers to
// queries. It is the copier's. It keeps no bytes: an incomplete header, or the beginning of a
// possible marker, comes again with the next bytes.
type ReplyReader struct {
	conn    *Conn
	frames  scan.Replies
	answers answers
	editor  editor
}

// NewReader returns a ReplyReader for the upstream's bytes of c.
func NewReader(c *Conn) ReplyReader { return ReplyReader{conn: c} }

// Part describes the front of the bytes that Split was given.
type Part struct {
	From, To int    // b[From:To] goes to the client
	Boundary int    // the first Boundary bytes of those end between two frames; not positive: no frame ends there
	Insert   []byte // goes to the client then; if there are any, Split must be called again for the rest
	Ends     bool   // the client is between two frames after Insert
	Used     int    // the rest, b[Used:], is for the next call of Split
	Removed  bool   // the client is between two frames after b[From:To]; Split must be called again for the rest
	Answered uint64 // the query that was answered; 0: none
	Garbled  bool   // frame boundaries are lost
}

// split is a Part that is not complete.
type split struct {
	b        []byte
	from     int    // b[:from] is removed
	boundary int    // b[:boundary] ends between two frames
	at       int    // b[:at] was read
	received uint64 // replies
}

// Split reads the front of b.
func (r *ReplyReader) Split(b []byte) Part {
	s := split{b: b, received: r.conn.received.Load()}
	for s.at < len(b) && !r.frames.Broken() {
		q := r.conn.queries.pending.Load()
		if q != nil && r.frames.AtElement() && (r.frames.Inside() || r.answers.stage != answering) {
			v, n, answered := r.answers.judge(&r.conn.queries, q, b[s.at:], r.frames.Inside())
			if v == wait {
				break
			}
			if v == remove {
				return r.remove(&s, n, answered)
			}
		}
		changed, read := r.next(&s, q != nil)
		if changed != nil {
			return *changed
		}
		if !read {
			break
		}
	}
	if r.frames.Broken() {
		s.at = len(b)
	}
	r.conn.received.Store(s.received)
	return Part{From: s.from, To: s.at, Boundary: s.boundary - s.from, Used: s.at, Garbled: r.frames.Broken()}
}

// next reads a piece: replies of the usual kinds, a frame, with asked set a part of one. It
// reports whether it has read anything. changed is not nil if the piece ends with a change.
func (r *ReplyReader) next(s *split, asked bool) (changed *Part, read bool) {
	if r.conn.edits != nil && r.edits(s.received) {
		return r.rewrite(s)
	}
	if !asked && r.editor.next == nil && r.passScalars(s) {
		return nil, true
	}
	return nil, r.frame(s, asked)
}

// passScalars reads whole replies of the usual kinds.
func (r *ReplyReader) passScalars(s *split) bool {
	n, replies := r.frames.PassScalars(s.b[s.at:])
	if n == 0 {
		return false
	}
	s.at += n
	s.boundary = s.at
	s.received += uint64(replies)
	return true
}

// frame reads on to the end of a frame, or of the bytes; with step set to the end of an element.
// It reports whether it has read any.
func (r *ReplyReader) frame(s *split, step bool) bool {
	read := r.frames.Next
	if step {
		read = r.frames.Step
	}
	n, ended := read(s.b[s.at:])
	if r.answers.stage == answering {
		r.answers.record(s.b[s.at : s.at+n])
		s.from = s.at + n
	}
	s.at += n
	if !ended {
		return n > 0
	}
	s.boundary = s.at
	switch {
	case r.answers.stage == answering:
		r.answers.stage = opened
	case r.frames.First != '>':
		s.received++
	}
	return true
}

// remove returns the Part before an answer: n bytes, or the frame that begins there if n is 0.
//
// A marker among the elements of a frame shows that the frame has fewer elements than its header
// says: EXEC counts a CLIENT REPLY SKIP, which has no reply.
func (r *ReplyReader) remove(s *split, n int, answered uint64) Part {
	r.frames = scan.Replies{}
	r.answers.interrupt()
	if n == 0 {
		r.answers.begin()
	}
	if answered != 0 {
		s.received = r.conn.sent.Load()
	}
	r.conn.received.Store(s.received)
	return Part{From: s.from, To: s.at, Boundary: s.at - s.from, Used: s.at + n, Removed: true, Answered: answered}
}

// ReplyCounts match an upstream's replies with the requests that were forwarded. The methods are
// safe for concurrent use.
type ReplyCounts struct {
	sent     atomic.Uint64 // replies expected to all forwarded requests; set by the pump
	received atomic.Uint64 // replies counted; set by the copier
	garbled  atomic.Bool   // frame boundaries are lost; set by the copier, or by the pump
}

// Sent returns how many replies are expected to all forwarded requests.
func (c *ReplyCounts) Sent() uint64 { return c.sent.Load() }

// Received returns how many replies have come.
func (c *ReplyCounts) Received() uint64 { return c.received.Load() }

// Expect counts n more replies to come. Only the pump calls it.
func (c *ReplyCounts) Expect(n uint64) { c.sent.Add(n) }

// AllAnswered reports whether as many replies have come as were expected.
func (c *ReplyCounts) AllAnswered() bool { return c.sent.Load() <= c.received.Load() }

// Garbled reports whether frame boundaries are lost, so that replies cannot be counted.
func (c *ReplyCounts) Garbled() bool { return c.garbled.Load() }

// SetGarbled makes Decide return Forward, because frame boundaries are lost. It reports
// whether this call is the first. The copier calls it and, on a server with Judge, the pump.
func (c *ReplyCounts) SetGarbled() (first bool) { return !c.garbled.Swap(true) }
