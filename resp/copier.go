package resp

import (
	"errors"
	"io"
	"net"

	"go.uber.org/zap"

	"lockproxy/resp/internal/netpoll"
	"lockproxy/resp/internal/scan"
)

var errUpstreamClosed = errors.New("the upstream closed the connection")

// copier carries the upstream's bytes to the client until one of the two ends. It hands on what
// comes as it comes: nothing is kept but a frame header or a possible marker that is not complete.
// It counts the replies, and finds the answers to questions.
//
// It runs on a loop, or on a goroutine where it may have to wait.
type copier struct {
	s   *Session
	up  net.Conn
	in  netpoll.Buffer
	sc  scan.Replies
	ans answers
	err error // writing to the client failed
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

// piece is what was read and not dealt with yet.
type piece struct {
	b        []byte
	start    int    // what is before was forwarded or cut out
	boundary int    // what is before ends between two frames
	at       int    // what is before is known
	counted  uint64 // replies
}

// use deals with what was read and keeps the rest in c.in. On a loop, where it must not block, it
// stops where it would.
func (c *copier) use(onLoop bool) (stop bool) {
	s := c.s
	if !s.out.enter(onLoop) {
		return true
	}
	defer s.out.leave()
	p := piece{b: c.in.Bytes(), counted: s.received.Load()}
	for p.at < len(p.b) && !c.sc.Broken {
		asked := s.question.asked.Load()
		if asked != nil && c.sc.AtElement() {
			v := c.judge(&p, asked)
			if v == unclear {
				break
			}
			if v == cutOut {
				continue
			}
		}
		if asked == nil && c.pass(&p) {
			continue
		}
		if !c.frame(&p, asked != nil) {
			break
		}
	}
	if c.sc.Broken {
		c.lose()
		p.at = len(p.b)
	}
	s.received.Store(p.counted)
	s.latency.answered(p.counted, s.srv.o.Timed)
	c.forward(p.b[p.start:p.at], p.boundary-p.start)
	c.in.Skip(p.at)
	return c.err != nil || len(s.out.rest) > 0
}

// pass passes over whole replies of the usual kinds.
func (c *copier) pass(p *piece) bool {
	n, replies := c.sc.PassScalars(p.b[p.at:])
	if n == 0 {
		return false
	}
	p.at += n
	p.boundary = p.at
	p.counted += uint64(replies)
	return true
}

// frame goes on to the end of a frame, or of the bytes; with step set element by element. It
// reports whether that was any way.
func (c *copier) frame(p *piece, step bool) bool {
	read := c.sc.Next
	if step {
		read = c.sc.Step
	}
	n, ended := read(p.b[p.at:])
	if c.ans.cut {
		c.ans.record(p.b[p.at : p.at+n])
		p.start = p.at + n
	}
	p.at += n
	if !ended {
		return n > 0
	}
	p.boundary = p.at
	switch {
	case c.ans.cut:
		c.ans.cut = false
	case c.sc.First != '>':
		p.counted++
	}
	return true
}

// judge decides, while a question is asked, whether the frame that begins here is one of its
// answers. cutOut: the frame was, and is dealt with.
//
// A marker among the elements of a frame shows that the frame has fewer elements than its header
// says: EXEC counts a CLIENT REPLY SKIP, which has no reply.
func (c *copier) judge(p *piece, asked *inquiry) verdict {
	v, n, answered := c.ans.judge(&c.s.question, asked, p.b[p.at:], c.sc.Inside)
	if v != cutOut {
		return v
	}
	c.sc = scan.Replies{}
	c.forward(p.b[p.start:p.at], p.at-p.start)
	c.s.out.between = true
	p.at += n
	p.start, p.boundary = p.at, p.at
	if n == 0 {
		c.ans.begin()
		return forward // to where frames are counted, which knows better
	}
	if answered != 0 {
		p.counted = c.s.sent.Load()
		c.s.received.Store(p.counted)
		c.meet(answered)
	}
	return cutOut
}

// meet tells the pump that a question is answered.
func (c *copier) meet(number uint64) {
	q := &c.s.question
	select {
	case <-q.met: // of one whose asker has given up
	default:
	}
	q.met <- number
	if c.s.out.onLoop {
		c.s.srv.loops.poll.GiveWay()
	}
}

// lose gives up on telling frames apart: from here on everything passes, and lock commands go to
// the upstream, which does not know them.
func (c *copier) lose() {
	s := c.s
	if s.lost.Swap(true) {
		return
	}
	s.out.endReplies()
	c.meet(0)
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
