package resp

import (
	"bytes"
	"cmp"
	"io"
	"net"
	"slices"
	"time"

	"github.com/tidwall/redcon"

	"lockproxy/resp/internal/netpoll"
	"lockproxy/resp/internal/protocol"
	"lockproxy/resp/internal/scan"
)

// This file has the tasks of the pump that wait for the upstream, and so never run on a loop:
// before a lock command (prepare, ask), when the upstream takes no more bytes (writeFailed), and
// before an error about the client's bytes (refuseRest). Errors in place of replies are here, too
// (refuse).

// prepare decides about the lock command that is complete in p.req. run: it may run.
func (p *pump) prepare() (run bool, err error) {
	decision := protocol.Run
	if !p.s.runner.ready() {
		decision = p.s.proto.Decide()
	}
	if decision == protocol.Ask {
		decision, err = p.ask()
	}
	switch {
	case err != nil || decision == protocol.Drop || p.step != stepPump:
		return false, err
	case decision == protocol.Forward && p.s.srv.judges():
		return false, p.s.runner.silence()
	case decision == protocol.Forward:
		p.s.proto.Expect(1)
		p.forward(appendCommand(nil, p.req.Argv, len(p.req.Argv)), false)
		return false, nil
	}
	return true, nil
}

// ask asks the upstream which requests it has answered and, if that is not certain, for the
// connection's standing. It returns Run, Forward or Drop.
func (p *pump) ask() (protocol.Decision, error) {
	for {
		request, number := p.s.proto.Ask()
		p.s.srv.markers.Add(p.s.proto.Markers())
		decision, err := p.awaitAnswer(request, number)
		if err != nil || decision != protocol.Run {
			return decision, err
		}
		if decision = p.s.proto.Conclude(); decision != protocol.Ask {
			return decision, nil
		}
	}
}

// blockedTime is how long the upstream may take to answer a blocking command after the client has
// ended its input. Then the proxy ends the upstream's input as well, so that the command pops no
// element for a client that has left. The requests after it are lost. A direct connection loses
// them too. Without a blocking command the upstream is only busy, and gets the rest when it
// answers. Tests on busy machines change it before they begin.
var blockedTime = 250 * time.Millisecond

// silentTime is how long an upstream whose replies CLIENT REPLY may have switched off must be
// silent to conclude that they are off. Messages and lines of MONITOR may look like replies, so
// the wait ends after silentMost.
const (
	silentTime = 500 * time.Millisecond
	silentMost = 4 * silentTime
)

// awaitAnswer sends a query and waits for its answer. Meanwhile the client is read ahead.
func (p *pump) awaitAnswer(request []byte, number uint64) (protocol.Decision, error) {
	s := p.s
	s.in.ahead.start(s.in.bytes())
	defer s.in.ahead.stop()
	if _, err := s.up.conn.Write(request); err != nil {
		p.step = stepWriteFailed
		return protocol.Run, p.writeFailed()
	}
	w := waiting{p: p, number: number, ended: s.in.ahead.ended, received: s.proto.Received(), start: time.Now()}
	if s.proto.SilenceMeansOff() {
		w.silent = time.After(silentTime)
	}
	return w.wait()
}

// waiting is the wait for the answer to a query. The client may leave meanwhile.
type waiting struct {
	p      *pump
	number uint64 // of the query

	silent   <-chan time.Time // ends silentTime; nil if the upstream answers in any case
	received uint64           // replies received when silentTime began
	start    time.Time        // of the wait

	ended   <-chan struct{}  // the client's input has ended
	blocked <-chan time.Time // ends blockedTime
	last    <-chan time.Time // ends lastReplyTimeout
	written uint64           // bytes that the client had got when lastReplyTimeout began
	gaveUp  bool             // the upstream's input was ended, too
}

// wait returns Run if the answer has come, or Forward if no answer can be expected.
func (w *waiting) wait() (protocol.Decision, error) {
	s := w.p.s
	for {
		select {
		case number := <-s.proto.Answered():
			switch {
			case w.gaveUp: // requests after the lock command cannot be sent
				return protocol.Run, io.EOF
			case number == w.number:
				return protocol.Run, nil
			case s.proto.Garbled():
				return protocol.Forward, nil
			}
		case <-w.silent:
			if w.staysSilent() {
				s.proto.GiveUp()
				s.up.judgeAgain()
				return protocol.Forward, nil
			}
		case <-w.ended:
			if err := s.in.ahead.err; err != io.EOF {
				return protocol.Run, w.p.inputEnded(err)
			}
			w.ended, w.blocked = nil, time.After(blockedTime)
		case <-w.blocked:
			w.unblock()
		case <-w.last:
			if !w.progresses() {
				s.life.end(causeFinish, EndClient)
				s.cut()
				return protocol.Run, net.ErrClosed
			}
			w.awaitLastReplies()
		case <-s.up.copied:
			if s.life.now() >= stateLingering {
				s.discard()
			}
			return protocol.Run, io.EOF
		case <-s.ctx.Done():
			return protocol.Run, net.ErrClosed
		}
	}
}

// staysSilent reports whether replies are off. If replies came in silentTime, it waits on.
func (w *waiting) staysSilent() bool {
	now := w.p.s.proto.Received()
	if now == w.received || time.Since(w.start) >= silentMost {
		return true
	}
	w.received, w.silent = now, time.After(silentTime)
	return false
}

// unblock ends the upstream's input if a blocking command may keep it from answering.
func (w *waiting) unblock() {
	s := w.p.s
	if w.gaveUp = s.proto.MayBlock(); w.gaveUp {
		s.life.end(causeFinish, EndClient)
		netpoll.CloseWrite(s.up.conn)
	}
	w.awaitLastReplies()
}

// awaitLastReplies begins lastReplyTimeout.
func (w *waiting) awaitLastReplies() {
	w.written, w.last = w.p.s.progress.written.Load(), time.After(lastReplyTimeout)
}

// progresses reports whether the upstream is still answering requests, of which there may be many.
func (w *waiting) progresses() bool {
	return !w.gaveUp && w.p.s.progress.written.Load() != w.written
}

// writeFailed waits for the last replies of an upstream that takes no more bytes: it is about to
// close, or has.
func (p *pump) writeFailed() error {
	s := p.s
	select {
	case <-s.up.copied:
	case <-time.After(lingerTime):
		s.cut()
		return net.ErrClosed
	}
	if s.life.now() >= stateLingering {
		s.discard()
	}
	return io.EOF
}

// refusedAtOnce is how many requests are refused with one write.
const refusedAtOnce = 500

// refuse answers n requests that cannot be forwarded.
func (p *pump) refuse(n int64) {
	o := &p.s.srv.o
	line := redcon.AppendError(nil, "ERR upstream "+o.UpstreamName+": "+o.DialReason(p.s.up.failed))
	for ; n > 0; n -= refusedAtOnce { // in pieces: the errors may be much longer than the requests
		p.s.out.reply(bytes.Repeat(line, int(min(n, refusedAtOnce))))
	}
}

// malform is called when the client's bytes are no requests any more. The upstream gets them all,
// reports the error itself and closes. If it cannot be reached, or if each request is judged, the
// pump refuses them.
func (p *pump) malform(t *pass) {
	s := p.s
	if s.up.failed != nil || s.srv.judges() {
		p.step = stepRefuse
		return
	}
	if t.lock < 0 && p.req.Kind == scan.KindLock && len(p.req.Argv) > 0 { // the beginning of a lock command was kept back
		s.up.unsent = slices.Concat(s.up.unsent, appendCommand(nil, p.req.Argv, int(p.req.Args)))
	}
	s.proto.Expect(1)
	p.reading, t.lock = readingMalformed, -1
}

// refuseRest ends the connection with Redis' error about the client's bytes, after the replies to
// the requests before them. With replies off there is no error.
func (p *pump) refuseRest() error {
	s := p.s
	p.step = stepPump
	if p.req.Broken {
		awaitReplies(s)
	} else if run, err := p.prepare(); !run {
		return cmp.Or(err, io.EOF)
	}
	if p.req.Why != "" {
		s.out.reply(redcon.AppendError(nil, "ERR "+scan.ProtocolError(p.req.Why).Error()))
	}
	if s.up.conn == nil && !s.srv.judges() {
		return io.EOF
	}
	s.life.end(causeFinish, EndProxy)
	netpoll.CloseWrite(s.client) // then the client closes: unread input would take the error away
	s.discard()
	return net.ErrClosed
}

// awaitReplies waits until the requests before a broken one are answered, or for lingerTime. The
// upstream cannot be asked: it has the beginning of the broken one.
func awaitReplies(s *Session) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	last := time.After(lingerTime)
	for !s.proto.AllAnswered() {
		select {
		case <-tick.C:
		case <-last:
			return
		case <-s.up.copied:
			return
		case <-s.ctx.Done():
			return
		}
	}
}
