package resp

import (
	"io"
	"net"
	"time"

	"github.com/tidwall/redcon"

	"lockproxy/resp/internal/netpoll"
)

// turn says what becomes of a lock command whose turn has come.
type turn uint8

const (
	turnRun     turn = iota
	turnForward      // the upstream gets it as it is, which it does not know: replies are off, or nothing can be told of the connection
	turnDrop         // CLIENT REPLY SKIP was meant for it
)

// prepare brings a lock command, complete in s.req, to its turn: everything before it is answered,
// nothing behind it was forwarded, and the connection's standing is known. run: it may run.
func (s *Session) prepare() (run bool, err error) {
	t := turnRun
	switch {
	case s.regular():
	case s.lost.Load() || s.repliesOff():
		t = turnForward
	default:
		t, err = s.ask()
	}
	switch {
	case err != nil || t == turnDrop || s.step != stepPump:
		return false, err
	case t == turnForward:
		s.sent.Add(1)
		s.forward(appendCommand(nil, s.req.Argv, len(s.req.Argv)))
		return false, nil
	}
	return true, nil
}

// mustAsk reports whether the standing is to be asked for although the client sent nothing that
// may have changed it: it is not known to be logged in as more than a guest.
func (s *Session) mustAsk() bool { return !s.standing.loggedIn || s.guest() }

// repliesOff reports whether replies were found to be off, and nothing came since.
func (s *Session) repliesOff() bool {
	s.changes.off = s.changes.off && s.received.Load() == s.offAt
	return s.changes.off
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

// ask asks the upstream how far it has got and, where that is not known for certain, what the
// connection's standing is.
func (s *Session) ask() (turn, error) {
	for {
		full := s.changes.unsure || s.mustAsk()
		skip := s.changes.skip
		user := s.srv.o.AskUser || s.srv.o.Facts().GuestsLimited
		request := s.question.ask(full, user, skip, s.withoutHello)
		t, err := s.awaitAnswer(request)
		if err != nil || t != turnRun {
			return t, err
		}
		s.changes = changes{monitor: s.changes.monitor, multi: s.changes.multi}
		hello, whoami := s.question.head[0], s.question.head[1]
		if !user {
			whoami = nil
		}
		if full && !s.learn(hello, whoami) {
			s.changes.unsure = true
			continue
		}
		if skip && !s.question.passed {
			return turnDrop, nil
		}
		return turnRun, nil
	}
}

// awaitAnswer sends a question and waits for its answer. Meanwhile the client is read ahead.
func (s *Session) awaitAnswer(request []byte) (turn, error) {
	number := s.question.last.number
	s.readAhead.start(s.in.Bytes())
	defer s.readAhead.stop()
	if _, err := s.up.Write(request); err != nil {
		s.step = stepWriteFailed
		return turnRun, s.writeFailed()
	}
	var ended <-chan struct{} = s.readAhead.ended
	left := departure{s: s}
	var silent <-chan time.Time
	received, start := s.received.Load(), time.Now()
	if s.changes.replies {
		silent = time.After(silentTime)
	}
	for {
		select {
		case met := <-s.question.met:
			switch {
			case left.told: // nothing after the lock command could be sent
				return turnRun, io.EOF
			case met == number:
				return turnRun, nil
			case s.lost.Load():
				return turnForward, nil
			}
		case <-silent:
			if now := s.received.Load(); now != received && time.Since(start) < silentMost {
				received, silent = now, time.After(silentTime)
				continue
			}
			s.question.giveUp()
			s.changes.off, s.offAt = true, s.received.Load()
			return turnForward, nil
		case <-ended:
			if s.readAhead.err != io.EOF {
				return turnRun, s.inputEnded(s.readAhead.err)
			}
			ended, left.blocked = nil, time.After(blockedTime)
		case <-left.blocked:
			left.unblock()
		case <-left.last:
			if !left.progresses() {
				s.life.end(eventFinish, EndClient)
				s.teardown()
				return turnRun, net.ErrClosed
			}
			left.await()
		case <-s.copied:
			if s.life.now() >= stateLingering {
				s.swallow()
			}
			return turnRun, io.EOF
		case <-s.ctx.Done():
			return turnRun, net.ErrClosed
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
	if d.told = d.s.mayBlock(); d.told {
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
