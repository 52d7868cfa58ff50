package resp

import (
	"errors"
	"io"
	"net"

	"go.uber.org/zap"
)

var errUpstreamClosed = errors.New("the upstream closed the connection")

// copyReplies is the goroutine that carries the upstream's bytes to the client until one of the two ends. It hands on what
// comes as it comes: nothing is kept but a frame header or a possible marker that is not complete.
func (s *Session) copyReplies(up net.Conn) {
	defer close(s.copied)
	defer s.contain("copier")
	c := copier{s: s}
	src, use := newSource(up), c.use
	err := src.receive(&c.in, use, s.looped)
	for err == nil && c.err == nil { // the loop gave up
		if use(true); c.err == nil {
			err = src.receive(&c.in, use, s.looped)
		}
	}
	if c.err == nil {
		s.out.mu.Lock()
		c.err = s.out.forwardLocked(c.in.bytes(), 0) // bytes held back, which are all there will be
		s.out.mu.Unlock()
	}
	if c.err != nil {
		s.over(endOf(c.err))
	} else {
		s.over(EndProxy)
	}
	s.out.close(errUpstreamClosed)
	if c.err != nil || !errors.Is(err, io.EOF) {
		s.log().Debug("connection ended", zap.NamedError("upstream_error", err), zap.NamedError("client_error", c.err))
		s.teardown()
		return
	}
	s.linger()
}

// copier is the state of copyReplies.
type copier struct {
	s   *Session
	in  inbox
	sc  replyScanner
	err error // writing to the client failed

	lost bool // sc.broken is known to the others
	told bool // and in the log
}

// use deals with what was read and keeps the rest in c.in. On a loop, where it must not block, it stops where it would.
func (c *copier) use(mayBlock bool) (stop bool) {
	s, b := c.s, c.in.bytes()
	if !s.out.enter(mayBlock) {
		return true
	}
	defer s.out.leave()
	if !mayBlock && (c.sc.broken || s.st.renewing.Load()) {
		return true // a marker may be in it, behind which the copier waits, or the answer to a RESET, of which others are told
	}
	counted := s.st.received.Load()
	start, boundary, i := 0, 0, 0 // b[start:i] is to be forwarded, b[:boundary] ends between two frames
	for i < len(b) && (mayBlock || !c.sc.broken) {
		if !c.sc.inside && b[i] == '-' && s.marker.armed.Load() {
			n, more := s.marker.find(b[i:])
			if more {
				break
			}
			if n > 0 {
				s.st.received.Store(counted)
				c.forwardLocked(b[start:i], boundary-start)
				c.meetLocked()
				counted = s.st.received.Load()
				i += n
				start, boundary = i, i
				continue
			}
		}
		watching := s.st.watching.Load()
		if !watching {
			if n, replies := c.sc.passScalars(b[i:]); n > 0 {
				i += n
				boundary = i
				counted += uint64(replies)
				continue
			}
		}
		whole := !c.sc.inside
		n, ended := c.sc.next(b[i:])
		if n == 0 {
			break
		}
		if c.sc.headLen < headSize && (watching || whole && b[i] == '-') {
			c.sc.record(b[i : i+n])
		}
		i += n
		if c.sc.broken && !c.lost {
			c.lost = true
			s.st.lose()
		}
		if !ended {
			continue
		}
		boundary = i
		switch {
		case watching || c.sc.first == '-':
			s.st.received.Store(counted)
			if s.st.frame(c.sc.first, c.sc.head[:c.sc.headLen], c.sc.lastInt) {
				s.ends(EndReset)
				s.st.told()
			}
			counted = s.st.received.Load()
		case c.sc.first != '>':
			counted++
		}
	}
	s.st.received.Store(counted)
	s.timing.answered(counted, s.srv.o.Timed)
	c.forwardLocked(b[start:i], boundary-start)
	c.in.skip(i)
	if c.lost && mayBlock && !c.told {
		c.told = true
		s.log().Warn("replies of the upstream cannot be told apart any more, lock commands on this connection take the slow way")
	}
	return c.err != nil || len(s.out.rest) > 0 || !mayBlock && c.sc.broken
}

func (c *copier) forwardLocked(b []byte, boundary int) {
	if c.err == nil {
		c.err = c.s.out.forwardLocked(b, max(boundary, 0))
	}
}

// meetLocked is called where the answer to the marker was. Everything before it was answered. Where frames can still be told apart the
// copier goes on, as there may be pushes; where not, it waits until our reply has its place.
func (c *copier) meetLocked() {
	s := c.s
	s.st.resync()
	if c.sc.broken {
		s.out.between = true
		select {
		case <-s.replied: // to an earlier command
		default:
		}
	}
	s.marker.hit()
	if s.out.onLoop {
		s.loop.wakes()
	}
	if c.sc.broken {
		s.out.mu.Unlock()
		defer s.out.mu.Lock()
		select {
		case <-s.replied:
		case <-s.ctx.Done():
		}
	}
}
