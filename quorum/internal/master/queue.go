package master

import (
	"time"

	"lockproxy/quorum/internal/wire"
)

// entry is one request on a lane, from being queued to being answered: a lock operation, or a
// command of its own.
type entry struct {
	op   wire.Op
	to   Receiver      // of op; nil: the result is not reported
	call *plainCommand // a command; nil: op counts

	sent     time.Duration // of the first of a packet: when it was encoded, by the lane's clock
	run      int           // of the first of a packet: how many entries the packet holds
	place    int           // index of its result in the reply to the packet
	again    bool          // it goes out again, before all that were never sent
	noScript bool          // the master has answered NOSCRIPT to it once
	alone    bool          // it goes out in its own packet: one that held it was answered NOPERM
	serial   uint64        // of the repair that op is for; 0 without one

	// Set by the answer.
	err         error
	notRun      bool
	askAgain    bool      // of an acquire: another try may do better at once
	resent      bool      // back in the queue: not reported
	landed      bool      // a top-up has set its key on the master
	voters      uint64    // a top-up: the masters whose grants made the lease
	voted       time.Time // a top-up: until then they keep it
	unconfirmed uint64    // a release that came late, or may have: the other masters that had not confirmed it
}

// plainCommand is a command that is no lock operation. done is called once with the reply; nil
// without one.
type plainCommand struct {
	request []byte
	done    func(r *wire.Reply)
}

// queue holds the unanswered entries of a lane, oldest first. The last unsent of them are not
// encoded yet. The zero value is empty. status.refusal bounds it. A large queue shrinks when it is
// empty.
type queue struct {
	buf    []entry // length zero or a power of two
	head   int
	n      int
	unsent int
	ahead  ahead // for operations whose age the master looks at
}

// sent returns how many entries were written and are not answered.
func (q *queue) sent() int { return q.n - q.unsent }

func (q *queue) at(i int) *entry { return &q.buf[(q.head+i)&(len(q.buf)-1)] }

// push appends an operation. Begun of one that sets a key is by the lane's clock.
func (q *queue) push(op wire.Op, to Receiver) *entry {
	if op.Kind == wire.Acquire || op.Kind == wire.TopUp {
		op.Begun = q.ahead.masterTime(op.Begun)
	}
	e := q.add()
	e.op, e.to = op, to
	return e
}

// resend adds an operation that goes out once more, before all that have not gone out yet.
func (q *queue) resend(e entry) {
	q.add()
	i := q.n - 1
	for ; i > q.sent() && !q.at(i-1).again; i-- {
		*q.at(i) = *q.at(i - 1)
	}
	*q.at(i) = entry{op: e.op, to: e.to, again: true, noScript: e.noScript, alone: e.alone, serial: e.serial}
}

// add appends an empty entry.
func (q *queue) add() *entry {
	if q.n == len(q.buf) {
		bigger := make([]entry, max(64, 2*len(q.buf)))
		for i := range q.n {
			bigger[i] = *q.at(i)
		}
		q.buf, q.head = bigger, 0
	}
	q.n++
	q.unsent++
	return q.at(q.n - 1)
}

// pop appends the oldest n entries to to and takes them out.
func (q *queue) pop(to []entry, n int) []entry {
	for range n {
		e := q.at(0)
		to = append(to, *e)
		*e = entry{} // for the garbage collector
		q.head = (q.head + 1) & (len(q.buf) - 1)
	}
	if q.n -= n; q.n == 0 && len(q.buf) > maxUnanswered {
		q.buf, q.head = nil, 0
	}
	return to
}
