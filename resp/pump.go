package resp

import (
	"errors"
	"io"
	"net"
	"os"
	"time"

	"github.com/tidwall/redcon"
	"go.uber.org/zap"

	"lockproxy/resp/internal/netpoll"
	"lockproxy/resp/internal/protocol"
	"lockproxy/resp/internal/scan"
)

// pump carries the client's bytes to the upstream until a lock command comes, lets the runner run
// that, and goes on. It runs on a loop. If it may have to wait (to dial, to ask, for a lock
// command, for a side that takes no more), it runs on a goroutine. If no loop watches the client,
// it runs on redcon's goroutine, inside Read. One goroutine or loop at a time uses it.
type pump struct {
	s        *Session
	req      scan.Requests
	delivery delivery
	step     step
	reading  readingMode
	caughtUp bool // all bytes read were forwarded, and no lock command was among them
}

// step is the next task of the pump.
type step uint8

const (
	stepPump        step = iota // read on
	stepLock                    // a lock command is complete
	stepAlone                   // a request is complete that Options.Alone may answer
	stepReset                   // report EndReset, then forward RESET
	stepAsk                     // ask the upstream at once: replies may be on again
	stepRefuse                  // refuse the client's bytes, which are no requests
	stepQuit                    // end: QUIT without an upstream, cut, closed by a handler, at rest, the upstream is back
	stepWriteFailed             // the upstream takes no more bytes
)

// readingMode says how the client's bytes are read.
type readingMode uint8

const (
	readingRequests  readingMode = iota
	readingOpaque                // all bytes are forwarded: requests and replies are not recognised
	readingMalformed             // likewise, and the upstream will close, because the bytes are no requests
)

// errWatched is how the pump ends on a goroutine because a loop goes on with it.
var errWatched = errors.New("a loop watches the connection")

// readOnLoop is called by the loop after it has read the client or, without new bytes, after
// Requeue. It must not block.
func (p *pump) readOnLoop() (stop bool) {
	s := p.s
	switch {
	case s.running.Load() && s.runner.begun.noteArrival():
		return s.in.hold()
	case s.in.empty():
		return s.life.draining() && p.atRest()
	}
	return p.processRead(true) && s.runner.beginCommands()
}

// run pumps on a goroutine, for a client that a loop watches. stopped is why the loop watches it
// no more.
func (p *pump) run(stopped error) {
	err := p.serveClient(stopped)
	if err == errWatched {
		return
	}
	p.s.finishUpstream(err)
	p.s.close()
}

// serveClient pumps and runs lock commands until the connection ends, or until the loop watches
// again, because the client has sent no more.
func (p *pump) serveClient(stopped error) (err error) {
	err = net.ErrClosed
	defer p.s.contain("pump")
	if err = p.watchEnded(stopped); err != nil {
		return err
	}
	for {
		if err = p.next(); err != nil {
			return err
		}
		if err = p.s.runner.serve(); err != nil {
			return err
		}
	}
}

// watchEnded takes over from the loop. It returns nil if the pump goes on.
func (p *pump) watchEnded(stopped error) error {
	s := p.s
	s.progress.busy()
	if panicked, ok := stopped.(*netpoll.PanicError); ok {
		s.srv.o.Log.Error("panic, connection closed", zap.String("where", "pump"), zap.Error(panicked))
		if s.runner.begun.phase == phaseBroken {
			s.runner.writeReply(redcon.AppendError(nil, internalError))
		}
		s.cut()
		return net.ErrClosed
	}
	if !s.in.empty() && stopped != nil && !errors.Is(stopped, os.ErrDeadlineExceeded) {
		s.in.ahead.end(stopped) // after the bytes that are there
		return nil
	}
	return p.receiveEnded(stopped)
}

// next pumps until a lock command, which is then in p.req, may run. errWatched: a loop goes on.
// Another error is the end of the connection: io.EOF at the end of the client's input.
func (p *pump) next() error {
	s := p.s
	s.in.ahead.stop()
	if err := s.in.ahead.readErr(); err != nil { // bytes that are left came before the last reply
		p.delivery.inputEnded(err, s.client)
	}
	for {
		if p.step == stepReset { // before the upstream has it
			p.step = stepPump
			s.life.report(EndReset)
		}
		p.flush()
		switch {
		case s.life.now() >= stateLingering:
			s.discard()
			return io.EOF
		case p.step == stepWriteFailed:
			return p.writeFailed()
		case p.step == stepRefuse:
			return p.refuseRest()
		case p.step == stepQuit:
			s.life.end(causeFinish, endOf(s.in.ahead.readErr())) // not on the loop: the function of OnEnd may write to the log
			return io.EOF
		case p.step == stepLock:
			p.step = stepPump
			if run, err := p.prepare(); run || err != nil {
				return err
			}
			continue
		case p.step == stepAlone:
			p.step = stepPump
			s.runner.standIn()
			continue
		case p.step == stepAsk:
			p.step = stepPump
			if _, err := p.ask(); err != nil {
				return err
			}
			continue
		case s.life.now() == stateDraining && p.atRest(): // all that has come is answered
			s.in.readLast()
			s.life.beginEnding()
			continue
		case p.served() && s.in.ahead.readErr() == nil:
			p.step = stepQuit
			continue
		}
		if err := p.receive(); err != nil {
			return err
		}
	}
}

// receive processes the bytes that are there, and then reads more, until the pump has another
// task.
func (p *pump) receive() error {
	s := p.s
	for more := true; more; {
		if !s.in.empty() && (p.process(false) || len(s.up.unsent) > 0) {
			return nil
		}
		var err error
		if more, err = s.in.takeAhead(); err != nil {
			return p.inputEnded(err)
		}
	}
	if s.polled != nil && (s.up.conn == nil || s.up.polled != nil) {
		n, err := s.in.readNow()
		switch {
		case err != nil:
			return p.receiveEnded(err)
		case n > 0:
			return nil
		}
		s.progress.await(p.req.Begun, p.unfinished())
		s.watch()
		return errWatched
	}
	s.progress.await(p.req.Begun, p.unfinished())
	err := netpoll.Receive(s.client, &s.in.buf, func() bool { return p.processRead(false) })
	s.progress.busy()
	return p.receiveEnded(err)
}

// receiveEnded returns nil if the pump must check for its next task.
func (p *pump) receiveEnded(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, os.ErrDeadlineExceeded): // the pump was woken: the upstream ended, or the connection drains
		p.s.client.SetReadDeadline(time.Time{})
		return nil
	}
	return p.inputEnded(err)
}

// processRead processes newly read bytes; unless it returns true, the caller then waits for the
// client again. onLoop: it must not block.
func (p *pump) processRead(onLoop bool) (stop bool) {
	s := p.s
	s.progress.busy()
	s.in.arrived()
	dialled := s.up.conn != nil
	stop = p.process(onLoop) || len(s.up.unsent) > 0 || dialled != (s.up.conn != nil) // a loop may take over
	if !stop {
		s.progress.await(p.req.Begun, p.unfinished())
	}
	return stop
}

// unfinished reports whether the client has begun a request and not ended it.
func (p *pump) unfinished() bool {
	return p.reading == readingMalformed || p.reading == readingRequests && (!p.req.Between() || !p.s.in.empty())
}

// inputEnded forwards the bytes that were held back, like a connection without a proxy. It keeps
// the beginning of a lock command, and all of them on a server with Judge.
func (p *pump) inputEnded(err error) error {
	s := p.s
	if err == errAheadMost {
		s.srv.o.Log.Info("client disconnected", zap.Stringer("client", s.client.RemoteAddr()), zap.Error(err))
	}
	p.delivery.inputEnded(err, s.client)
	s.life.end(causeFinish, endOf(err))
	if b := s.in.bytes(); err == io.EOF && len(b) > 0 && s.up.conn != nil && !p.req.Collecting() && !s.srv.judges() {
		s.up.conn.Write(b)
	}
	return err
}

// process forwards the bytes that are there: up to a lock command, up to a header, a name or an
// inline request that is incomplete, or, on a server with Judge, up to a request that is not
// judged yet. stop: the pump has another task, in p.step, or must not go on on a loop.
func (p *pump) process(onLoop bool) (stop bool) {
	s := p.s
	switch {
	case onLoop && s.up.polled == nil && !s.runner.lockAlone(): // the upstream must be dialled
		return true
	case s.ctx.Err() != nil, // cut: the client may send faster than the past deadline is noticed
		p.served(): // these bytes came too late
		p.step = stepQuit
		return true
	case p.caughtUp && s.life.now() == stateDraining && p.atRest():
		return true // next makes the last read: a client that asks on at once may never be met at rest again
	}
	p.delivery.unconfirmed = nil
	if s.up.failed != nil && p.req.Between() && !s.up.alone().lasts(s.in.begin()) {
		s.up.failed = nil
	}
	p.scan(onLoop)
	p.caughtUp = p.step == stepPump && s.in.empty()
	return p.step != stepPump
}

// pass is one scan of the bytes that are there.
type pass struct {
	gathered     // the part of b[:at] to forward
	at       int // b[:at] was scanned
	lock     int // offset of a lock command, which is not forwarded; -1: there is none
}

// end returns the offset up to which bytes are forwarded.
func (t *pass) end() int {
	if t.lock >= 0 {
		return t.lock
	}
	return t.at
}

// scan finds the requests in the bytes that are there, up to a lock command that is complete, and
// forwards the bytes before it in one write.
func (p *pump) scan(onLoop bool) {
	s := p.s
	t := pass{gathered: gathered{b: s.in.bytes()}, lock: -1}
	first := s.srv.o.Timed != nil && p.req.Between()
	for ev := scan.Notable; t.at < len(t.b) && p.step == stepPump && ev != scan.More; {
		if p.reading != readingRequests {
			t.at = len(t.b)
			break
		}
		collecting := p.req.Collecting()
		var n int
		n, ev = p.read(t.b[t.at:])
		t.at += n
		switch {
		case ev == scan.Own:
			t.lock = t.at
		case collecting && t.lock < 0: // it began before b
			t.take(t.at)
		}
		if ev == scan.Notable || ev == scan.Malformed && !s.srv.judges() || t.any(t.end()) {
			p.connect()
		}
		if first && ev == scan.More {
			p.timeFirst(t.b[:t.at])
		}
		p.event(&t, ev)
		first = false
	}
	p.count()
	p.forward(t.take(t.end()), onLoop)
	if p.step == stepRefuse {
		t.at = len(t.b)
	}
	s.in.skip(t.at)
}

// read scans b, or collects a lock command from it.
func (p *pump) read(b []byte) (n int, ev scan.Found) {
	if p.req.Collecting() {
		return p.req.Collect(b)
	}
	return p.req.Scan(b)
}

// event handles an event of the scan.
func (p *pump) event(t *pass, ev scan.Found) {
	switch ev {
	case scan.Notable:
		if p.noteNotable(); p.step == stepReset { // it is sent when EndReset was reported
			p.s.up.unsent = append(p.s.up.unsent, t.take(t.at)...)
		}
	case scan.Done:
		if p.step = stepLock; p.req.Kind != scan.KindLock {
			p.step = stepAlone
		}
	case scan.Malformed:
		p.count()
		p.malform(t)
	case scan.Drop:
		t.drop(t.at, p.req.Dropped)
		t.at += p.req.Dropped
	}
}

// timeFirst times the request at the front of b, which is about to be forwarded with others.
func (p *pump) timeFirst(b []byte) {
	s := p.s
	switch {
	case p.req.Ended == 0, s.up.failed != nil, !s.latency.due():
	case s.proto.Countable():
		s.latency.begin(b, s.proto.Sent()+1)
	default:
		s.latency.postpone()
	}
}

// count counts the plain requests that have passed.
func (p *pump) count() {
	n := p.req.Ended
	p.req.Ended = 0
	switch {
	case n == 0:
	case p.s.up.failed != nil:
		p.refuse(n)
	default:
		p.s.proto.Expect(uint64(n))
	}
}

// noteNotable notes a request that may change the connection's standing, and counts the plain
// ones before it. Without an upstream it refuses the request.
func (p *pump) noteNotable() {
	s := p.s
	p.req.Ended-- // Note counts it, unless it subscribes
	p.count()
	switch {
	case s.up.failed != nil && p.req.Kind == scan.KindQuit:
		s.runner.quit()
	case s.up.failed != nil:
		p.refuse(1)
	default:
		p.apply(s.proto.Note(&p.req))
	}
}

// apply carries out the effect of a request that is forwarded next.
func (p *pump) apply(effect protocol.Effect) {
	s := p.s
	switch effect {
	case protocol.EffectReset:
		if s.life.watched() {
			p.step = stepReset
		}
	case protocol.EffectAsk:
		p.step = stepAsk
	case protocol.EffectOpaque:
		if s.srv.judges() {
			s.proto.SetGarbled() // later requests are judged nevertheless
		} else {
			p.reading = readingOpaque
		}
		s.out.endReplies()
	case protocol.EffectQuit:
		s.life.quit.Store(true)
	}
}

// served reports whether the connection may end: it drains, is at rest, and all bytes of the last
// read were processed.
func (p *pump) served() bool {
	return p.s.life.now() == stateEnding && p.s.in.lastProcessed() && p.atRest()
}

// atRest reports whether no request is half read, no reply is missing and no transaction is open.
// It looks neither at bytes that were read and not scanned yet, nor at subscriptions.
func (p *pump) atRest() bool {
	return p.req.Between() && (p.s.up.conn == nil || p.s.proto.AtRest())
}
