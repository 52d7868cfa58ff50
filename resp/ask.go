package resp

import (
	"io"
	"net"
	"time"

	"github.com/tidwall/redcon"

	"lockproxy/resp/internal/netpoll"
	"lockproxy/resp/internal/protocol"
)

// prepare decides about the lock command that is complete in s.req. run: it may run.
func (s *Session) prepare() (run bool, err error) {
	decision := protocol.Run
	if !s.regular() {
		decision = s.proto.Decide()
	}
	if decision == protocol.Ask {
		decision, err = s.ask()
	}
	switch {
	case err != nil || decision == protocol.Drop || s.step != stepPump:
		return false, err
	case decision == protocol.Forward:
		s.proto.Expect(1)
		s.forward(appendCommand(nil, s.req.Argv, len(s.req.Argv)))
		return false, nil
	}
	return true, nil
}

// blockedTime is how long the upstream may take to answer a blocking command after the client has
// ended its input. Then the proxy ends the upstream's input as well, so that the command pops
// nothing for a client that has left. The requests after it are lost, as on a direct connection.
// Without a blocking command the upstream is only busy, and gets the rest when it answers. Tests on
// busy machines change it, before they begin.
var blockedTime = 250 * time.Millisecond

// silentTime is how long no reply may come from an upstream whose replies CLIENT REPLY may have
// switched off. Then they are off. Messages and lines of MONITOR may look like replies, so it is
// not waited for longer than silentMost.
const (
	silentTime = 500 * time.Millisecond
	silentMost = 4 * silentTime
)

// ask asks the upstream how far it has got and, if that is not certain, for the connection's
// standing.
func (s *Session) ask() (protocol.Decision, error) {
	for {
		request, number := s.proto.Ask()
		decision, err := s.awaitAnswer(request, number)
		if err != nil || decision != protocol.Run {
			return decision, err
		}
		if decision = s.proto.Conclude(); decision != protocol.Ask {
			return decision, nil
		}
	}
}

// awaitAnswer sends a question and waits for its answer. Meanwhile the client is read ahead.
func (s *Session) awaitAnswer(request []byte, number uint64) (protocol.Decision, error) {
	s.readAhead.start(s.in.Bytes())
	defer s.readAhead.stop()
	if _, err := s.up.Write(request); err != nil {
		s.step = stepWriteFailed
		return protocol.Run, s.writeFailed()
	}
	var ended <-chan struct{} = s.readAhead.ended
	left := departure{s: s}
	var silent <-chan time.Time
	received, start := s.proto.Received(), time.Now()
	if s.proto.SilenceMeansOff() {
		silent = time.After(silentTime)
	}
	for {
		select {
		case met := <-s.proto.Answered():
			switch {
			case left.told: // nothing after the lock command could be sent
				return protocol.Run, io.EOF
			case met == number:
				return protocol.Run, nil
			case s.proto.Garbled():
				return protocol.Forward, nil
			}
		case <-silent:
			if now := s.proto.Received(); now != received && time.Since(start) < silentMost {
				received, silent = now, time.After(silentTime)
				continue
			}
			s.proto.GiveUp()
			return protocol.Forward, nil
		case <-ended:
			if s.readAhead.err != io.EOF {
				return protocol.Run, s.inputEnded(s.readAhead.err)
			}
			ended, left.blocked = nil, time.After(blockedTime)
		case <-left.blocked:
			left.unblock()
		case <-left.last:
			if !left.progresses() {
				s.life.end(eventFinish, EndClient)
				s.teardown()
				return protocol.Run, net.ErrClosed
			}
			left.await()
		case <-s.copied:
			if s.life.now() >= stateLingering {
				s.swallow()
			}
			return protocol.Run, io.EOF
		case <-s.ctx.Done():
			return protocol.Run, net.ErrClosed
		}
	}
}

// departure is about a client that has ended its input while the upstream is asked.
type departure struct {
	s       *Session
	blocked <-chan time.Time // ends blockedTime
	last    <-chan time.Time // ends lastWords
	written uint64           // bytes that the client had got when lastWords began
	told    bool             // the upstream's input was ended, too
}

// unblock ends the upstream's input if a blocking command may keep it from answering.
func (d *departure) unblock() {
	if d.told = d.s.proto.MayBlock(); d.told {
		d.s.life.end(eventFinish, EndClient)
		netpoll.CloseWrite(d.s.up)
	}
	d.await()
}

// await begins lastWords.
func (d *departure) await() {
	d.written, d.last = d.s.progress.written.Load(), time.After(lastWords)
}

// progresses reports whether the upstream is still answering requests, of which there may be many.
func (d *departure) progresses() bool { return !d.told && d.s.progress.written.Load() != d.written }

// appendCommand appends the request made of argv, whose header says that it has count arguments.
func appendCommand(b []byte, argv [][]byte, count int) []byte {
	b = redcon.AppendArray(b, count)
	for _, arg := range argv {
		b = redcon.AppendBulk(b, arg)
	}
	return b
}
