package resp

import (
	"errors"
	"io"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"lockproxy/resp/internal/netpoll"
	"lockproxy/resp/internal/protocol"
	"lockproxy/resp/internal/scan"
)

var errUpstreamClosed = errors.New("the upstream closed the connection")

// copier carries the upstream's bytes to the client until one of the two ends. It hands bytes on
// as they come, except for an incomplete frame header or a possible marker of a query. It runs on
// a loop, or on a goroutine if it may have to wait.
type copier struct {
	s       *Session
	in      netpoll.Buffer
	replies protocol.Reader
	err     error // writing to the client failed
}

// newCopier returns the copier of a session that has a connection to the upstream.
func newCopier(s *Session) *copier { return &copier{s: s, replies: protocol.NewReader(&s.proto)} }

// start lets the loop read the upstream, or else a goroutine.
func (c *copier) start() {
	if c.s.up.polled != nil {
		c.watch()
		return
	}
	c.s.srv.wg.Go(func() { c.run(nil) })
}

// watch lets the loop read the upstream.
func (c *copier) watch() { c.s.up.polled.Watch(&c.in, c.relayOnLoop, c.watchEnded) }

// run carries bytes on a goroutine. If a loop can watch the upstream, run hands over to the loop
// when no bytes are there. stopped is why the loop watches no more.
func (c *copier) run(stopped error) {
	defer c.s.contain("copier")
	up, polled := c.s.up.conn, c.s.up.polled
	if polled == nil {
		for stopped == nil && c.err == nil {
			stopped = netpoll.Receive(up, &c.in, c.relayOnGoroutine)
		}
	}
	for stopped == nil && c.err == nil {
		c.relay(false)
		if c.err != nil {
			break
		}
		n, err := polled.ReadInto(&c.in)
		if stopped = err; n == 0 && err == nil {
			c.watch()
			return
		}
	}
	c.end(stopped)
}

// watchEnded is called when the loop watches the upstream no more.
func (c *copier) watchEnded(stopped error) { c.s.srv.wg.Go(func() { c.run(stopped) }) }

func (c *copier) relayOnLoop() (stop bool) { return c.relay(true) }

func (c *copier) relayOnGoroutine() (stop bool) { return c.relay(false) }

// end is called when one of the two sides has ended; stopped is why reading the upstream has.
func (c *copier) end(stopped error) {
	s := c.s
	if c.err == nil {
		s.out.mu.Lock()
		c.err = s.out.forwardLocked(c.in.Bytes(), 0, false) // held back until now, for bytes that will not come
		s.out.mu.Unlock()
	}
	c.in.Skip(len(c.in.Bytes()))
	c.in.Release()
	if c.err != nil {
		s.life.end(causeFinish, endOf(c.err))
	} else {
		s.life.end(causeFinish, EndProxy)
	}
	s.out.close(errUpstreamClosed)
	defer close(s.up.copied)
	if c.err != nil || !errors.Is(stopped, io.EOF) {
		if _, panicked := errors.AsType[*netpoll.PanicError](stopped); panicked {
			s.srv.o.Log.Error("panic, connection closed", zap.String("where", "copier"), zap.Error(stopped))
		}
		s.srv.o.Log.Debug("connection ended", zap.NamedError("upstream_error", stopped),
			zap.NamedError("client_error", c.err))
		s.cut()
		return
	}
	s.linger()
}

// relay forwards the bytes in c.in, without the answers to our queries, and keeps an incomplete
// end. On a loop it stops before it would block. stop: a goroutine must go on.
func (c *copier) relay(onLoop bool) (stop bool) {
	s := c.s
	if !s.out.enter(onLoop) {
		return true
	}
	defer s.out.leave()
	for more := true; more; {
		b := c.in.Bytes()
		part := c.replies.Split(b)
		if part.Garbled {
			c.garbled(onLoop)
		}
		s.latency.answered(s.proto.Received(), s.srv.o.Timed)
		c.forward(b[part.From:part.To], part.Boundary, onLoop)
		c.in.Skip(part.Used)
		if more = part.Removed; more {
			s.out.between = true
		}
		if part.Answered != 0 {
			c.deliver(part.Answered, onLoop)
		}
	}
	return c.err != nil || len(s.out.rest) > 0
}

// deliver wakes the pump, which waits for the answer to a query.
func (c *copier) deliver(number uint64, onLoop bool) {
	c.s.proto.Deliver(number)
	if onLoop {
		c.s.srv.loops.poll.Yield()
	}
}

// garbled is called when the replies can no longer be told apart: from here on everything passes, and lock commands go
// to the upstream, which does not know them.
func (c *copier) garbled(onLoop bool) {
	s := c.s
	if !s.proto.SetGarbled() {
		return
	}
	s.out.endReplies()
	c.deliver(0, onLoop)
	s.srv.wg.Go(func() { // a loop must not wait for the log
		s.srv.o.Log.Warn("replies of the upstream cannot be told apart any more, "+
			"lock commands on this connection are not executed",
			zap.Stringer("client", s.client.RemoteAddr()))
	})
}

// forward writes to the client. The first boundary bytes of b, if positive, end between two
// frames.
func (c *copier) forward(b []byte, boundary int, onLoop bool) {
	if c.err == nil {
		c.err = c.s.out.forwardLocked(b, max(boundary, 0), onLoop)
	}
}

// timedEvery is of how many packets of requests one is timed, the first included.
const timedEvery = 16

// latency measures how long the upstream takes to answer: of some requests, one at a time for each
// connection, so that the cost is negligible.
type latency struct {
	packets uint8         // counted by the pump
	seq     atomic.Uint64 // which reply ends it; 0: none is being timed. The pump sets it, the copier clears it
	start   time.Time     // with group written before seq is set
	group   string
}

// due counts a packet of plain requests. It reports whether the packet should be timed.
func (t *latency) due() bool {
	t.packets++
	return t.packets%timedEvery == 1 && t.seq.Load() == 0
}

// begin times the request at the front of b, which is forwarded next. seq is its number.
func (t *latency) begin(b []byte, seq uint64) {
	name := scan.Name(b)
	if name == nil {
		return
	}
	if t.group = groupOf(name); t.group != "" {
		t.start = time.Now()
		t.seq.Store(seq)
	}
}

// answered ends the timing when received, the number of replies so far, has reached the request.
func (t *latency) answered(received uint64, report func(group string, took time.Duration)) {
	if seq := t.seq.Load(); seq != 0 && received >= seq {
		report(t.group, time.Since(t.start))
		t.seq.Store(0)
	}
}
