package resp

import (
	"errors"
	"io"
	"net"
	"os"
	"time"

	"go.uber.org/zap"

	"lockproxy/resp/internal/netpoll"
	"lockproxy/resp/internal/protocol"
	"lockproxy/resp/internal/scan"
)

// errWatched is how the pump ends on a goroutine because a loop goes on with it.
var errWatched = errors.New("a loop watches the connection")

// pump carries the client's bytes to the upstream until a lock command has its turn; that is then
// in s.req. errWatched: a loop goes on. Another error is the end of the connection: io.EOF at the
// end of the client's input.
func (s *Session) pump() error {
	s.readAhead.stop()
	if err := s.readAhead.inputEnded(); err != nil { // what is left was sent before that, and says nothing of the last reply
		s.confirm(err)
	}
	for {
		if s.step == stepReset { // before the upstream has it
			s.step = stepPump
			s.life.report(EndReset)
		}
		s.flush()
		switch {
		case s.life.now() >= stateLingering:
			s.swallow()
			return io.EOF
		case s.step == stepWriteFailed:
			return s.writeFailed()
		case s.step == stepRefuse:
			return s.refuseRest()
		case s.step == stepQuit:
			s.life.end(eventFinish, EndProxy) // if that was not reported yet; here, as those who are told may write to the log, which a loop must not wait for
			return io.EOF
		case s.step == stepOwn:
			s.step = stepPump
			if run, err := s.prepare(); run || err != nil {
				return err
			}
			continue
		case s.step == stepAsk:
			s.step = stepPump
			if _, err := s.ask(); err != nil {
				return err
			}
			continue
		case s.life.draining() && len(s.in.Bytes()) == 0 && s.atRest():
			s.life.end(eventFinish, EndProxy)
			return io.EOF
		}
		if err := s.receive(); err != nil {
			return err
		}
	}
}

// receive deals with the bytes that are there, and then reads more, until the pump has something
// else to do.
func (s *Session) receive() error {
	for more := true; more; {
		if len(s.in.Bytes()) > 0 && (s.process() || len(s.unsent) > 0) {
			return nil
		}
		var err error
		before := len(s.in.Bytes())
		if more, err = s.readAhead.take(&s.in); err != nil {
			return s.inputEnded(err)
		}
		s.progress.read.Add(uint64(len(s.in.Bytes()) - before))
	}
	s.seen = len(s.in.Bytes())
	if s.polled != nil && (s.up == nil || s.upPolled != nil) {
		n, err := s.polled.ReadInto(&s.in)
		switch {
		case err != nil:
			return s.receiveEnded(err)
		case n > 0:
			s.progress.read.Add(uint64(n))
			return nil
		}
		s.progress.await(s.req.Begun, s.unfinished())
		s.polled.Watch(&s.in, s.useOnLoop, s.resume)
		return errWatched
	}
	s.progress.await(s.req.Begun, s.unfinished())
	err := netpoll.Receive(s.client, &s.in, s.use)
	s.progress.busy()
	return s.receiveEnded(err)
}

// receiveEnded returns nil where the pump is to look again what it has to do.
func (s *Session) receiveEnded(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, os.ErrDeadlineExceeded): // somebody wakes the pump: the upstream ended, or the server shuts down
		s.client.SetReadDeadline(time.Time{})
		return nil
	}
	return s.inputEnded(err)
}

// use deals with bytes that were just read, behind which the client is waited for again.
func (s *Session) use() (stop bool) {
	s.progress.busy()
	s.progress.read.Add(uint64(len(s.in.Bytes()) - s.seen))
	dialled := s.up != nil
	stop = s.process() || len(s.unsent) > 0 || dialled != (s.up != nil) // a loop may take over
	s.seen = len(s.in.Bytes())
	if !stop {
		s.progress.await(s.req.Begun, s.unfinished())
	}
	return stop
}

// unfinished reports whether the client has begun a request and not ended it.
func (s *Session) unfinished() bool {
	return s.malformed || !s.opaque && (!s.req.Between() || len(s.in.Bytes()) > 0)
}

// inputEnded passes on what was held back, so that the upstream has every byte.
func (s *Session) inputEnded(err error) error {
	if err == errAheadMost {
		s.log().Info("client disconnected", zap.Stringer("client", s.client.RemoteAddr()), zap.Error(err))
	}
	s.confirm(err)
	s.life.end(eventFinish, endOf(err))
	if b := s.in.Bytes(); err == io.EOF && len(b) > 0 && s.up != nil && !s.req.Strict && !s.req.Collecting() {
		s.up.Write(b)
	}
	return err
}

// process forwards the bytes that are there, as far as they can be told. stop: the pump has
// something else to do, in s.step, or must not do it on a loop.
func (s *Session) process() (stop bool) {
	s.kept = false
	switch {
	case s.onLoop && s.upPolled == nil && !s.lockAlone(): // to be dialled
		return true
	case s.ctx.Err() != nil, // cut off: the client may send faster than the past deadline is noticed
		s.fresh && s.life.draining() && s.atRest(): // else a client that asks on as soon as it is answered would never be met at rest
		s.step = stepQuit
		return true
	}
	s.unconfirmed = nil
	if s.req.Between() {
		s.failed = nil
	}
	s.scan()
	s.fresh = s.step == stepPump && len(s.in.Bytes()) == 0
	return s.step != stepPump
}

// scan finds the requests in the bytes that are there, up to a lock command that is complete, and
// forwards what is before it in one write.
func (s *Session) scan() {
	b := s.in.Bytes()
	at := 0             // b[:at] was scanned
	g := gathered{b: b} // the part of b[:at] to forward
	own := -1           // offset of a lock command, which is not forwarded
	first := s.srv.o.Timed != nil && s.req.Between()
	more := true
	for at < len(b) && s.step == stepPump && more {
		if s.opaque {
			at = len(b)
			break
		}
		collecting := s.req.Collecting()
		n, ev := s.next(b[at:])
		at += n
		switch {
		case ev == scan.Own:
			own = at
		case collecting && own < 0: // it began before b
			g.take(at)
		}
		if ev == scan.Notable || ev == scan.Malformed || ev == scan.Inline || g.any(end(own, at)) {
			s.connect()
		}
		switch ev {
		case scan.More:
			if first && s.proto.Countable() {
				s.timeFirst(b[:at])
			}
			more = false
		case scan.Notable:
			if s.notable(); s.step == stepReset { // it goes out when that is done
				s.unsent = append(s.unsent, g.take(at)...)
			}
		case scan.Done:
			s.step = stepOwn
		case scan.Malformed:
			s.count()
			own = s.malform(own)
		case scan.Drop:
			g.drop(at, s.req.Dropped)
			at += s.req.Dropped
		case scan.Inline:
			s.count()
			s.forward(g.take(at))
			s.notable()
			s.forward(appendCommand(nil, s.req.Argv, len(s.req.Argv)))
			g.drop(at, s.req.Dropped)
			at += s.req.Dropped
		}
		first = false
	}
	s.count()
	s.forward(g.take(end(own, at)))
	if s.step == stepRefuse {
		at = len(b)
	}
	s.in.Skip(at)
}

// atRest reports whether no request is half read, nothing is unanswered and no transaction is
// open. It looks neither at bytes that were read and not scanned yet, nor at subscriptions.
func (s *Session) atRest() bool {
	return s.req.Between() && (s.up == nil || s.proto.AtRest())
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

// end returns the offset up to which bytes are forwarded.
func end(own, at int) int {
	if own >= 0 {
		return own
	}
	return at
}

// next reads on in b.
func (s *Session) next(b []byte) (n int, ev scan.Event) {
	if s.req.Collecting() {
		return s.req.Collect(b)
	}
	return s.req.Scan(b)
}

// timeFirst times the request at the front of b, which is about to be forwarded with others.
func (s *Session) timeFirst(b []byte) {
	if s.req.Ended > 0 && s.failed == nil && s.latency.due() {
		s.latency.begin(b, s.proto.Sent()+1)
	}
}

// count notes the plain requests that have passed.
func (s *Session) count() {
	n := s.req.Ended
	s.req.Ended = 0
	switch {
	case n == 0:
	case s.failed != nil:
		s.refuse(n)
	default:
		s.proto.Expect(uint64(n))
	}
}

// notable notes a request that matters to what the connection is, and the plain ones before it.
func (s *Session) notable() {
	if s.req.Ended > 0 { // it was counted, unless it is an inline one in the strict form
		s.req.Ended--
	}
	s.count()
	switch {
	case s.failed != nil && s.req.Kind == scan.KindQuit:
		s.life.end(eventFinish, EndQuit)
		s.out.reply([]byte("+OK\r\n"))
		s.step = stepQuit
	case s.failed != nil:
		s.refuse(1)
	default:
		s.apply(s.proto.Note(&s.req))
	}
}

// apply does what a request that is about to be forwarded asks for.
func (s *Session) apply(effect protocol.Effect) {
	switch effect {
	case protocol.EffectReset:
		if s.life.watched() {
			s.step = stepReset
		}
	case protocol.EffectAsk:
		s.step = stepAsk
	case protocol.EffectOpaque:
		s.opaque = true
	case protocol.EffectQuit:
		s.life.quit.Store(true)
	}
	if s.opaque {
		s.out.endReplies()
	}
}

// connect dials the upstream if there is no connection yet. Where that fails, the requests that
// were read together get the error, and the next ones dial again, after a short while.
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
	if s.life.now() == stateClosed {
		up.Close()
		s.failed = net.ErrClosed
		return
	}
	c := &copier{s: s, up: up, replies: protocol.NewReader(&s.proto)}
	if s.polled != nil {
		if polled, ok := s.srv.loops.poll.Adopt(up); ok {
			c.up, s.upPolled = polled, polled
		}
	}
	s.up, s.copied = c.up, make(chan struct{})
	address := ""
	if _, tcp := up.LocalAddr().(*net.TCPAddr); tcp {
		address = up.LocalAddr().String()
	}
	s.proto.Connected(address)
	if s.upPolled != nil {
		s.upPolled.Watch(&c.in, c.useOnLoop, c.resume)
		return
	}
	s.srv.wg.Go(func() { c.run(nil) })
}

// forward writes bytes to the upstream.
func (s *Session) forward(b []byte) {
	if len(b) == 0 || s.failed != nil || s.step == stepWriteFailed {
		return
	}
	var err error
	switch {
	case len(s.unsent) > 0:
		s.unsent = append(s.unsent, b...)
	case s.onLoop:
		var n int
		n, err = s.upPolled.TryWrite(b)
		s.unsent = append(s.unsent, b[n:]...)
	default:
		_, err = s.up.Write(b)
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

// writeFailed waits for the last replies of an upstream that reads no more: it is about to close,
// or has.
func (s *Session) writeFailed() error {
	select {
	case <-s.copied:
	case <-time.After(lingerTime):
		s.teardown()
		return net.ErrClosed
	}
	if s.life.now() >= stateLingering {
		s.swallow()
	}
	return io.EOF
}
