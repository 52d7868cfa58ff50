package resp

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"lockproxy/resp/internal/netpoll"
	"lockproxy/resp/internal/protocol"
	"lockproxy/resp/internal/scan"
)

// uplink is the pump's way to the upstream. Fields and methods are the pump's unless they say
// otherwise.
type uplink struct {
	polled *netpoll.Socket // conn, if a loop watches it
	unsent []byte          // bytes that the upstream did not take at once
	failed error           // why the upstream cannot be reached; valid for the requests that were read together
	era    atomic.Uint64   // of the server when the upstream was dialled; 0: it was not. Read by others

	mu     sync.Mutex
	conn   net.Conn      // nil until it is needed; the pump, which sets it, reads it without mu
	copied chan struct{} // closed when the copier has ended; nil without conn
}

// open sets the connection, unless closed reports that the session has ended.
func (u *uplink) open(conn net.Conn, polled *netpoll.Socket, closed func() bool) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if closed() {
		return false
	}
	u.conn, u.polled, u.copied = conn, polled, make(chan struct{})
	return true
}

// get returns the connection and the channel of its copier. Safe for concurrent use.
func (u *uplink) get() (net.Conn, chan struct{}) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.conn, u.copied
}

// alone returns the failure of the last dial; nil if there is none, or no Options.Alone.
func (u *uplink) alone() *alone {
	a, _ := u.failed.(*alone)
	return a
}

// enter notes the server's era before the upstream is dialled. Retire either finds the note or
// makes the session dial in the next era.
func (u *uplink) enter(server *atomic.Uint64) {
	for {
		era := server.Load()
		u.era.Store(era)
		if server.Load() == era {
			return
		}
	}
}

// forward writes b. On a loop it keeps the bytes that the upstream does not take at once.
func (u *uplink) forward(b []byte, onLoop bool) (err error) {
	switch {
	case len(b) == 0 || u.failed != nil:
	case len(u.unsent) > 0:
		u.unsent = append(u.unsent, b...)
	case onLoop:
		var n int
		n, err = u.polled.TryWrite(b)
		u.unsent = append(u.unsent, b[n:]...)
	default:
		_, err = u.conn.Write(b)
	}
	return err
}

// judgeAgain makes the copier look again at bytes that it holds back because they look like an
// answer.
func (u *uplink) judgeAgain() {
	if u.polled != nil {
		u.polled.Requeue()
		return
	}
	u.conn.SetReadDeadline(time.Unix(1, 0)) // wakes copier.run
}

// flush writes the bytes that were kept. It may block.
func (u *uplink) flush() error {
	b := u.unsent
	u.unsent = nil
	return u.forward(b, false)
}

// connect dials the upstream if there is no connection yet. If that fails, the requests that were
// read together get the error, and the next ones dial again, after a short pause.
func (p *pump) connect() {
	s := p.s
	if s.up.conn != nil || s.up.failed != nil {
		return
	}
	s.up.enter(&s.srv.era)
	up, err := s.srv.dial(s.ctx)
	if err != nil {
		s.up.era.Store(0)
		s.up.failed = err
		if s.srv.o.Alone != nil {
			s.up.failed = &alone{error: err, at: time.Now(), until: s.progress.read.Load()}
		}
		s.srv.warnUnreachable(err)
		return
	}
	address := ""
	if _, tcp := up.LocalAddr().(*net.TCPAddr); tcp {
		address = up.LocalAddr().String()
	}
	var polled *netpoll.Socket
	if s.polled != nil {
		if adopted, ok := s.srv.loops.poll.Adopt(up); ok {
			up, polled = adopted, adopted
		}
	}
	s.proto.Connected(address)
	if !s.up.open(up, polled, func() bool { return s.life.now() == stateClosed }) {
		up.Close()
		s.up.failed = net.ErrClosed
		return
	}
	newCopier(s).start()
}

// forward writes bytes to the upstream.
func (p *pump) forward(b []byte, onLoop bool) {
	if p.step != stepWriteFailed && p.s.up.forward(b, onLoop) != nil {
		p.step = stepWriteFailed
	}
}

// flush writes the bytes that the upstream did not take at once.
func (p *pump) flush() {
	if p.step != stepWriteFailed && p.s.up.flush() != nil {
		p.step = stepWriteFailed
	}
}

// gathered collects the bytes of b that one write forwards: b[from:to], then b[next:] up to an
// offset that the caller passes. Dropped bytes leave a gap, which drop closes in place. Each byte
// moves once at most.
type gathered struct {
	b              []byte
	from, to, next int
}

// any reports whether there are bytes to forward before offset at.
func (g *gathered) any(at int) bool { return g.to > g.from || at > g.next }

// drop leaves out the n bytes at offset at.
func (g *gathered) drop(at, n int) {
	if g.to < g.next {
		copy(g.b[g.to:], g.b[g.next:at])
	}
	g.to += at - g.next
	g.next = at + n
}

// take returns the bytes to forward before offset at, and starts again there.
func (g *gathered) take(at int) []byte {
	g.drop(at, 0)
	whole := g.b[g.from:g.to]
	g.from, g.to = at, at
	return whole
}

var errUpstreamClosed = errors.New("the upstream closed the connection")

// copier carries the upstream's bytes to the client until one of the two ends. It hands bytes on
// as they come, except for an incomplete frame header or a possible marker of a query. It runs on
// a loop, or on a goroutine if it may have to wait.
type copier struct {
	s       *Session
	in      netpoll.Buffer
	replies protocol.ReplyReader
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
			if errors.Is(stopped, os.ErrDeadlineExceeded) { // by judgeAgain
				up.SetReadDeadline(time.Time{})
				stopped = nil
				c.relay(false)
			}
		}
	}
	for stopped == nil && c.err == nil {
		c.relay(false)
		if c.err != nil {
			break
		}
		n, err := polled.ReadInto(&c.in)
		if stopped = err; n == 0 && err == nil {
			held := len(c.in.Bytes()) > 0
			c.watch()
			if held { // judgeAgain has no effect before watch
				polled.Requeue()
			}
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
		if part.Insert != nil {
			end := 0
			if part.Ends {
				end = len(part.Insert)
			}
			c.forward(part.Insert, end, onLoop)
		}
		c.in.Skip(part.Used)
		if part.Removed {
			s.out.between = true
		}
		more = part.Removed || part.Insert != nil
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

// garbled is called when the replies can no longer be distinguished. From here on everything
// passes, and lock commands go to the upstream, which does not know them; on a server with Judge,
// the next command for the handler ends the connection.
func (c *copier) garbled(onLoop bool) {
	s := c.s
	if !s.proto.SetGarbled() {
		return
	}
	s.out.endReplies()
	c.deliver(0, onLoop)
	s.srv.wg.Go(func() { // a loop must not wait for the log
		s.srv.o.Log.Warn("replies of the upstream cannot be distinguished any more, "+
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

// postpone makes the next packet due in place of this one, whose reply cannot be recognised.
func (t *latency) postpone() { t.packets-- }

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
