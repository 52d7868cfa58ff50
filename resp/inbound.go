package resp

import (
	"net"

	"lockproxy/resp/internal/netpoll"
)

// inbound reads the client. It owns the bytes that were read and not processed yet. While a lock
// command runs or waits, readAhead reads in its place. It is the pump's.
type inbound struct {
	conn     net.Conn
	polled   *netpoll.Conn // conn, if a loop watches it
	progress *progress

	buf     netpoll.Buffer
	counted int // how many bytes of buf progress has counted
	ahead   readAhead
}

// init prepares the reading of conn. left is called when the client ends its input, or says QUIT,
// while readAhead reads.
func (in *inbound) init(conn net.Conn, polled *netpoll.Conn, progress *progress, left func()) {
	in.conn, in.polled, in.progress = conn, polled, progress
	in.ahead = readAhead{conn: conn, polled: polled, left: left, taken: &progress.read, ended: make(chan struct{})}
}

// bytes returns the bytes that are not processed yet.
func (in *inbound) bytes() []byte { return in.buf.Bytes() }

// empty reports whether there are none.
func (in *inbound) empty() bool { return len(in.buf.Bytes()) == 0 }

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
