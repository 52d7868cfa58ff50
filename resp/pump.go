package resp

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"time"

	"github.com/tidwall/redcon"
	"go.uber.org/zap"
)

// pump carries the client's bytes to the upstream until a command of ours has its turn; that is then in s.frame. An error is the end
// of the connection: io.EOF at the end of the client's input.
func (s *Session) pump() error {
	s.ahead.stop()
	if err := s.ahead.inputEnded(); err != nil { // what is left was sent before that, and says nothing of the last reply
		s.prove(err)
	}
	for {
		s.flush()
		switch {
		case s.ended.Load():
			s.swallow()
			return io.EOF
		case s.step == stepWriteFailed:
			return s.writeFailed()
		case s.step == stepRefuse:
			return s.refuseRest()
		case s.step == stepQuit:
			s.over(EndProxy) // if that was not reported yet; here, as those who are told may write to the log, which a loop must not wait for
			return io.EOF
		case s.step == stepOwn:
			s.step = stepPump
			if run, err := s.due(); run || err != nil {
				return err
			}
			continue
		case s.step == stepSettle:
			s.step = stepPump
			if err := s.settle(); err != nil {
				return err
			}
			continue
		case s.drain.Load() && s.quiet():
			s.over(EndProxy)
			return io.EOF
		}
		if err := s.receive(); err != nil {
			return err
		}
	}
}

// receive deals with the bytes that are there, and then reads more, until the pump has something else to do.
func (s *Session) receive() error {
	for more := true; more; {
		if len(s.in.bytes()) > 0 && s.process() {
			return nil
		}
		var err error
		before := len(s.in.bytes())
		if more, err = s.ahead.take(&s.in); err != nil {
			return s.inputEnded(err)
		}
		s.pace.read.Add(uint64(len(s.in.bytes()) - before))
	}
	s.held = len(s.in.bytes())
	s.pace.await(s.req.begun, s.unfinished())
	err := s.src.receive(&s.in, s.use, s.looped)
	s.pace.busy()
	switch {
	case err == nil:
		return nil
	case errors.Is(err, os.ErrDeadlineExceeded): // somebody wakes the pump: the upstream ended, or the server shuts down
		s.client.SetReadDeadline(time.Time{})
		return nil
	}
	return s.inputEnded(err)
}

// processRead is process for bytes that were just read, behind which the client is waited for again.
func (s *Session) processRead(mayBlock bool) (stop bool) {
	s.pace.busy()
	s.pace.read.Add(uint64(len(s.in.bytes()) - s.held))
	looped := s.looped
	s.onLoop = !mayBlock
	stop = s.process() || len(s.unsent) > 0 || s.looped != looped // a loop takes over
	s.onLoop, s.held = false, len(s.in.bytes())
	if !stop {
		s.pace.await(s.req.begun, s.unfinished())
	}
	return stop
}

// unfinished tells whether the client has begun a request and not ended it.
func (s *Session) unfinished() bool {
	return s.astray || !s.tunnel && (!s.req.between() || len(s.in.bytes()) > 0)
}

// inputEnded passes on what was held back, so that the upstream has every byte.
func (s *Session) inputEnded(err error) error {
	s.prove(err)
	s.over(endOf(err))
	if b := s.in.bytes(); err == io.EOF && len(b) > 0 && s.up != nil && !s.req.strict && !s.req.collecting {
		s.up.Write(b)
	}
	return err
}

// process forwards the bytes that are there, as far as they can be told. stop: the pump has something else to do, in s.step.
func (s *Session) process() (stop bool) {
	if s.ctx.Err() != nil { // cut off: the client may send faster than the past deadline is noticed
		s.step = stepQuit
		return true
	}
	if s.fresh && s.drain.Load() && s.rest() { // else a client that asks on as soon as it is answered would never be met at rest
		s.step = stepQuit
		return true
	}
	defer func() { s.fresh = s.step == stepPump && len(s.in.bytes()) == 0 }()
	s.unproven = nil
	if s.req.between() {
		s.failed = nil
	}
	from := s.in.r                                              // the bytes from here on are not forwarded yet
	fit := s.srv.o.Timed != nil && !s.tunnel && s.req.between() // to be timed, if nothing but plain requests is there
	for s.in.r < s.in.w && s.step == stepPump {
		var ev event
		n, first := 0, fit
		fit = false
		switch {
		case s.tunnel:
			n, ev = len(s.in.bytes()), evMore
		case s.req.collecting:
			n, ev = s.req.collect(s.in.bytes())
			from = s.in.r + n
		default:
			n, ev = s.req.scan(s.in.bytes())
		}
		s.in.skip(n)
		if n > 0 && from < s.in.r || ev == evNotable || ev == evRaw || ev == evInline {
			s.connect()
		}
		switch ev {
		case evMore:
			if first && s.req.requests > 0 && s.failed == nil && s.timing.due() && s.st.countable() {
				s.timing.begin(s.in.mem[from:s.in.r], s.st.sent.Load()+1)
			}
			s.count()
			s.forward(s.in.mem[from:s.in.r])
			return s.step != stepPump
		case evNotable:
			s.notable()
			continue
		case evEmpty:
			s.st.empty()
			s.req.single = false
			continue
		case evOurs, evDrop, evInline:
			s.count()
		case evDone:
			s.step = stepOwn
		case evRaw:
			s.count()
			s.forward(s.in.mem[from:s.in.r])
			s.unframed()
			from = s.in.r
			continue
		}
		s.forward(s.in.mem[from:s.in.r]) // evOurs, evDrop, evInline
		if ev == evInline {
			s.notable()
			s.forward(appendCommand(nil, s.req.argv, len(s.req.argv)))
		}
		if ev == evInline || ev == evDrop {
			s.in.skip(s.req.drop)
		}
		from = s.in.r
	}
	if from < s.in.r {
		s.forward(s.in.mem[from:s.in.r])
	}
	return s.step != stepPump
}

// count notes the plain requests that have passed.
func (s *Session) count() {
	n := s.req.requests
	s.req.requests = 0
	if n == 0 {
		return
	}
	if s.failed != nil {
		s.refuse(n)
		return
	}
	s.st.sent.Add(uint64(n))
}

// notable notes a request that matters to the state, and the plain ones before it.
func (s *Session) notable() {
	if s.req.strict && s.req.requests == 0 {
		s.req.requests = 1 // an inline one, which the scanner leaves to be counted here
	}
	s.req.requests--
	s.count()
	if s.failed != nil {
		if s.req.kind == kQuit {
			s.over(EndQuit)
			s.out.reply([]byte("+OK\r\n"))
			s.step = stepQuit
			return
		}
		s.refuse(1)
		return
	}
	if s.req.kind == kQuit {
		s.quit.Store(true)
	}
	s.tunnel, s.req.single = s.st.note(s.req.kind, s.req.argv, s.req.index)
	if s.req.kind == kReset && s.st.resetInDoubt() {
		s.step = stepSettle
	}
}

// connect dials the upstream if there is no connection yet. Where that fails, the requests that were read together get the error, and
// the next ones dial again, after a short while.
func (s *Session) connect() {
	if s.up != nil || s.failed != nil {
		return
	}
	s.enter()
	up, err := s.srv.dial(s.ctx)
	if err != nil {
		s.era.Store(0)
		s.failed = err
		if now, last := time.Now().UnixNano(), s.srv.warned.Load(); now-last > int64(time.Second) && s.srv.warned.CompareAndSwap(last, now) {
			s.log().Warn("upstream cannot be reached", zap.String("upstream", s.srv.o.UpstreamName), zap.Error(err))
		}
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		up.Close()
		s.failed = net.ErrClosed
		return
	}
	if s.loop != nil {
		up = s.loop.adopt(up)
		_, s.looped = up.(carried)
	}
	s.up, s.copied = up, make(chan struct{})
	s.srv.wg.Go(func() { s.copyReplies(up) })
}

// refuse answers n requests that cannot be forwarded.
func (s *Session) refuse(n int64) {
	line := redcon.AppendError(nil, "ERR upstream "+s.srv.o.UpstreamName+": "+s.srv.o.DialReason(s.failed))
	s.out.reply(bytes.Repeat(line, int(n)))
}

// forward writes bytes to the upstream.
func (s *Session) forward(b []byte) {
	if len(b) == 0 || s.failed != nil || s.step == stepWriteFailed {
		return
	}
	var err error
	switch {
	case !s.onLoop:
		_, err = s.up.Write(b)
	default:
		n := 0
		if len(s.unsent) == 0 {
			n, err = s.up.(carried).tryWrite(b)
		}
		s.unsent = append(s.unsent, b[n:]...)
	}
	if err != nil {
		s.step = stepWriteFailed
	}
}

// flush writes what the upstream did not take at once.
func (s *Session) flush() {
	if b := s.unsent; len(b) > 0 {
		s.unsent = nil
		s.forward(b)
	}
}

// writeFailed waits for the last replies of an upstream that reads no more: it is about to close, or has.
func (s *Session) writeFailed() error {
	select {
	case <-s.copied:
	case <-time.After(lingerTime):
		s.teardown()
		return net.ErrClosed
	}
	if s.ended.Load() {
		s.swallow()
	}
	return io.EOF
}

// unframed is called where the client's bytes are no requests any more. The upstream says so itself and closes; if it must not see
// them, or cannot be reached, we do.
func (s *Session) unframed() {
	if s.req.strict || s.failed != nil {
		s.in.skip(len(s.in.bytes()))
		s.step = stepRefuse
		return
	}
	if len(s.req.argv) > 0 && s.req.kind == ours { // it broke off inside a command of ours, whose beginning was kept back
		s.forward(appendCommand(nil, s.req.argv, int(s.req.total)))
	}
	s.st.sent.Add(1)
	s.tunnel, s.astray = true, true
}

// refuseRest ends the connection with Redis' words for what is wrong with the client's bytes, after the replies that are still due.
func (s *Session) refuseRest() error {
	if s.up != nil && s.failed == nil {
		if err := s.barrier(); err != nil {
			return err
		}
	}
	if s.req.why != "" {
		s.out.reply(redcon.AppendError(nil, "ERR Protocol error: "+s.req.why))
	}
	s.noteReplied()
	return io.EOF
}

// quiet tells whether the connection may end without anything being cut off: no request is half read, nothing is unanswered.
func (s *Session) quiet() bool {
	return len(s.in.bytes()) == 0 && s.rest()
}

// rest tells whether no request is half read and nothing is unanswered. Bytes that are there were not looked at.
func (s *Session) rest() bool {
	return s.req.between() && (s.up == nil || s.st.settled())
}
