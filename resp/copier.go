package resp

import (
	"errors"
	"io"
	"net"

	"go.uber.org/zap"

	"lockproxy/resp/internal/netpoll"
	"lockproxy/resp/internal/protocol"
)

var errUpstreamClosed = errors.New("the upstream closed the connection")

// copier carries the upstream's bytes to the client until one of the two ends. It hands on what
// comes as it comes: nothing is kept but a frame header or a possible marker that is not complete.
// It counts the replies, and finds the answers to questions.
//
// It runs on a loop, or on a goroutine where it may have to wait.
type copier struct {
	s       *Session
	up      net.Conn
	in      netpoll.Buffer
	replies protocol.Reader
	err     error // writing to the client failed
}

// run carries bytes on a goroutine. Where a loop can watch the upstream it leaves the rest to the
// loop as soon as nothing is there. stopped is why the loop watches no more.
func (c *copier) run(stopped error) {
	defer c.s.contain("copier")
	polled, _ := c.up.(*netpoll.Conn)
	if polled == nil {
		for stopped == nil && c.err == nil {
			stopped = netpoll.Receive(c.up, &c.in, c.useOnGoroutine)
		}
	}
	for stopped == nil && c.err == nil {
		c.use(false)
		if c.err != nil {
			break
		}
		n, err := polled.ReadInto(&c.in)
		if stopped = err; n == 0 && err == nil {
			polled.Watch(&c.in, c.useOnLoop, c.resume)
			return
		}
	}
	c.end(stopped)
}

// resume is called where the loop watches the upstream no more.
func (c *copier) resume(stopped error) { c.s.srv.wg.Go(func() { c.run(stopped) }) }

func (c *copier) useOnLoop() (stop bool) { return c.use(true) }

func (c *copier) useOnGoroutine() (stop bool) { return c.use(false) }

// end is what happens when one of the two sides has ended; stopped is why reading the upstream
// has.
func (c *copier) end(stopped error) {
	s := c.s
	if c.err == nil {
		s.out.mu.Lock()
		c.err = s.out.forwardLocked(c.in.Bytes(), 0) // bytes held back, which are all there will be
		s.out.mu.Unlock()
	}
	c.in.Skip(len(c.in.Bytes()))
	c.in.Release()
	if c.err != nil {
		s.life.end(eventFinish, endOf(c.err))
	} else {
		s.life.end(eventFinish, EndProxy)
	}
	s.out.close(errUpstreamClosed)
	defer close(s.copied)
	if c.err != nil || !errors.Is(stopped, io.EOF) {
		if _, panicked := errors.AsType[*netpoll.PanicError](stopped); panicked {
			s.log().Error("panic, connection closed", zap.String("where", "copier"), zap.Error(stopped))
		}
		s.log().Debug("connection ended", zap.NamedError("upstream_error", stopped), zap.NamedError("client_error", c.err))
		s.teardown()
		return
	}
	s.linger()
}

// use forwards the bytes in c.in, without our own queries' answers, and keeps what is not complete.
// On a loop it stops before it would block. stop: a goroutine must go on.
func (c *copier) use(onLoop bool) (stop bool) {
	s := c.s
	if !s.out.enter(onLoop) {
		return true
	}
	defer s.out.leave()
	for more := true; more; {
		b := c.in.Bytes()
		part := c.replies.Split(b)
		if part.Garbled {
			c.lose()
		}
		s.latency.answered(s.proto.Received(), s.srv.o.Timed)
		c.forward(b[part.From:part.To], part.Boundary)
		c.in.Skip(part.Used)
		if more = part.Removed; more {
			s.out.between = true
		}
		if part.Answered != 0 {
			c.deliver(part.Answered)
		}
	}
	return c.err != nil || len(s.out.rest) > 0
}

// deliver wakes the pump, which waits for the answer to a query.
func (c *copier) deliver(number uint64) {
	c.s.proto.Deliver(number)
	if c.s.out.onLoop {
		c.s.srv.loops.poll.GiveWay()
	}
}

// lose gives up on telling frames apart: from here on everything passes, and lock commands go to
// the upstream, which does not know them.
func (c *copier) lose() {
	s := c.s
	if !s.proto.SetGarbled() {
		return
	}
	s.out.endReplies()
	c.deliver(0)
	s.srv.wg.Go(func() { // a loop must not wait for the log
		s.log().Warn("replies of the upstream cannot be told apart any more, lock commands on this connection are not executed",
			zap.Stringer("client", s.client.RemoteAddr()))
	})
}

func (c *copier) forward(b []byte, boundary int) {
	if c.err == nil {
		c.err = c.s.out.forwardLocked(b, max(boundary, 0))
	}
}
