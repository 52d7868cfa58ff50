package resp

import (
	"io"
	"net"
	"time"

	"github.com/tidwall/redcon"
)

// keptFrame is how much memory for a command of ours a connection keeps for the next. Most need less.
const keptFrame = 512

// due brings a command of ours, complete in s.req, to its turn: everything before it is answered, and nothing behind it was forwarded.
// run: it is then in s.frame. Where the upstream may be silent it gets the command as it is, which it does not know, and nothing is run.
func (s *Session) due() (run bool, err error) {
	argv := s.req.argv
	switch {
	case s.up == nil || s.st.regular() && !s.quit.Load(): // behind QUIT the upstream is about to close
	case s.silent() || !s.srv.o.MarkerWorks():
		if _, s.req.single = s.st.note(plain, nil, 0); s.step == stepPump {
			s.forward(appendCommand(nil, argv, len(argv)))
		}
		return false, nil
	default:
		if err := s.barrier(); err != nil {
			return false, err
		}
	}
	lower(argv[0]) // as the handlers are named
	s.frames = appendCommand(s.frames[:0], argv, len(argv))
	s.frame = s.frames
	if cap(s.frames) > keptFrame {
		s.frames = nil
	}
	return true, nil
}

// settle waits until a RESET is answered that cannot be told apart by counting, so that the AUTH that may follow can be.
func (s *Session) settle() error {
	if !s.srv.o.MarkerWorks() {
		return nil
	}
	return s.barrier()
}

// blockedTime is how long the upstream may take to answer a marker after the client has ended its input. Then the connection is taken
// for one that waits in a blocking command, and the upstream is told that its client has left: nothing may be popped for nobody. Tests on busy
// machines change it, before they begin.
var blockedTime = 250 * time.Millisecond

// silent tells whether the upstream may not answer a marker. While CLIENT REPLY ON is on its way it waits a little for the answer to that.
func (s *Session) silent() bool {
	for deadline := time.Now().Add(blockedTime); s.st.turningOn() && time.Now().Before(deadline) && s.ctx.Err() == nil; {
		time.Sleep(100 * time.Microsecond)
	}
	return s.st.silent()
}

// barrier waits until the upstream has answered everything that was sent. Meanwhile the client is read ahead.
func (s *Session) barrier() error {
	s.ahead.start(s.in.bytes())
	defer s.ahead.stop()
	if _, err := s.up.Write(s.marker.arm()); err != nil {
		s.step = stepWriteFailed
		return s.writeFailed()
	}
	var ended <-chan struct{} = s.ahead.ended
	var blocked, last <-chan time.Time
	for {
		select {
		case <-s.marker.met:
			return nil
		case <-ended:
			if s.ahead.err != io.EOF {
				return s.inputEnded(s.ahead.err)
			}
			ended, blocked = nil, time.After(blockedTime)
		case <-blocked:
			s.over(EndClient)
			closeWrite(s.up)
			last = time.After(lastWords)
		case <-last: // it hangs
			s.teardown()
			return net.ErrClosed
		case <-s.copied:
			if s.ended.Load() {
				s.swallow()
			}
			return io.EOF
		case <-s.ctx.Done():
			return net.ErrClosed
		}
	}
}

// appendCommand appends the request made of argv, whose header says that it has count arguments.
func appendCommand(b []byte, argv [][]byte, count int) []byte {
	b = redcon.AppendArray(b, count)
	for _, arg := range argv {
		b = redcon.AppendBulk(b, arg)
	}
	return b
}
