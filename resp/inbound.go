package resp

import (
	"net"
	"sync/atomic"
	"time"

	"lockproxy/resp/internal/netpoll"
)

// inbound reads the client. It owns the bytes that were read and not processed yet. While a
// handler runs, while an answer to a query is awaited, or when buf is full after a begun command,
// readAhead reads in its place. It is the pump's.
type inbound struct {
	conn     net.Conn
	polled   *netpoll.Socket // conn, if a loop watches it
	progress *progress

	buf     netpoll.Buffer
	counted int    // how many bytes of buf progress has counted
	last    uint64 // how many bytes of the client had come at the last read, if that was made
	ahead   readAhead
}

// init prepares the reading of conn. left is called when the client ends its input, or says QUIT,
// while readAhead reads.
func (in *inbound) init(conn net.Conn, polled *netpoll.Socket, progress *progress, left func()) {
	in.conn, in.polled, in.progress = conn, polled, progress
	in.ahead = readAhead{conn: conn, polled: polled, left: left, taken: &progress.read, ended: make(chan struct{})}
}

// bytes returns the bytes that are not processed yet.
func (in *inbound) bytes() []byte { return in.buf.Bytes() }

// empty reports whether there are none.
func (in *inbound) empty() bool { return len(in.buf.Bytes()) == 0 }

// begin returns how many bytes of the client were processed.
func (in *inbound) begin() uint64 { return in.progress.read.Load() - uint64(in.counted) }

// skip removes the first n bytes, which were processed.
func (in *inbound) skip(n int) {
	in.buf.Skip(n)
	in.counted -= n
}

// arrived counts the bytes that were added to buf.
func (in *inbound) arrived() {
	n := len(in.buf.Bytes())
	in.progress.read.Add(uint64(n - in.counted))
	in.counted = n
}

// hold keeps the bytes that have come after a running command. It reports whether they are too
// many.
func (in *inbound) hold() (tooMany bool) {
	in.arrived()
	in.ahead.findQuit(in.bytes())
	return in.counted >= aheadOwn
}

// takeAhead adds bytes that were read ahead. It reports whether there were any; err, once there
// are none, is how reading ended.
func (in *inbound) takeAhead() (ok bool, err error) {
	ok, err = in.ahead.take(&in.buf)
	if ok {
		in.arrived()
	}
	return ok, err
}

// readNow reads once, without waiting. A loop must be able to watch the client.
func (in *inbound) readNow() (n int, err error) {
	n, err = in.polled.ReadInto(&in.buf)
	if n > 0 {
		in.arrived()
	}
	return n, err
}

// readLast reads once more, because the loop may not have noticed the latest bytes yet. They
// follow the bytes that were read ahead.
func (in *inbound) readLast() {
	in.arrived()
	in.ahead.findQuit(in.bytes())
	in.last = in.progress.read.Load() + uint64(in.ahead.readLast())
}

// lastProcessed reports whether all bytes were processed that had come at the last read.
func (in *inbound) lastProcessed() bool { return in.begin() >= in.last }

// paceSteps is how often within SlowClientTimeout each connection is looked at.
const paceSteps = 8

// slowBytes is how much of a command must come within SlowClientTimeout for its client not to
// count as slow: a large value may take its time, one byte now and then may not.
const slowBytes = 64 << 10

// progress counts how far a client has got with reading and writing. Counting costs the session
// next to no time; Server.watchPace looks at the counts.
type progress struct {
	read atomic.Uint64 // bytes that came from the client

	// begun is the number of the request that the client has begun and not ended; 0: there is none,
	// or the pump does not wait for the client.
	begun   atomic.Uint64
	writing atomic.Bool   // a write to the client is under way
	written atomic.Uint64 // bytes that were written to it

	// Used by watchPace only.
	in  paceInput
	out paceOutput
}

// paceInput is the request that was unfinished at the last look, and how much of it had come.
type paceInput struct {
	begun, read uint64
	since       time.Time
}

// paceOutput is how much the client had taken at the last look.
type paceOutput struct {
	written, taken uint64
	queued         int
	since          time.Time // zero: no bytes waited for it
}

// await notes that the client is waited for. unfinished: it has begun a request, the one of the
// number begun.
func (p *progress) await(begun uint64, unfinished bool) {
	if unfinished {
		p.begun.Store(begun + 1)
	}
}

// busy notes that the client is not waited for.
func (p *progress) busy() { p.begun.Store(0) }

// slow returns why the client must be disconnected; empty: it is not slow. queued bytes are in the
// socket; taken is how many the client's system has ever acknowledged.
func (p *progress) slow(queued int, taken uint64, now time.Time, timeout time.Duration) (why string) {
	if p.stuck(queued, taken, now, timeout) {
		return "it takes nothing although replies wait for it"
	}
	begun, read := p.begun.Load(), p.read.Load()
	if begun != p.in.begun || read-p.in.read >= slowBytes {
		p.in = paceInput{begun, read, now}
	}
	if begun != 0 && now.Sub(p.in.since) >= timeout {
		return "it does not finish a command that it began"
	}
	return ""
}

// stuck reports whether bytes have waited for timeout and the client has taken none of them.
func (p *progress) stuck(queued int, taken uint64, now time.Time, timeout time.Duration) bool {
	at := paceOutput{p.written.Load(), taken, queued, p.out.since}
	waits := queued > 0 || p.writing.Load()
	switch {
	case !waits:
		at.since = time.Time{}
	case at != p.out || at.since.IsZero():
		at.since = now
	}
	p.out = at
	return waits && now.Sub(at.since) >= timeout
}
