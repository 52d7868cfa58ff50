package resp

import (
	"errors"
	"io"
	"os"
	"syscall"
)

// End is how a connection ended, as far as somebody must know who keeps something for it.
type End uint8

const (
	EndClient End = iota // the client closed or reset the connection
	EndQuit              // the client said QUIT
	EndReset             // a RESET was sent, which the upstream knows: the connection goes on, but as a new one
	EndProxy             // somebody else ended it: the upstream, a limit, a shutdown, or a network that went silent
)

// endOf tells what err, from reading or writing the client's socket, says of the client.
func endOf(err error) End {
	if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, syscall.ETIMEDOUT) || errors.Is(err, syscall.EHOSTUNREACH) {
		return EndProxy // nothing was heard of the client: it may well be alive
	}
	if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) {
		return EndClient
	}
	return EndProxy
}

// OnEnd sets who is told how the connection ends: any number of times EndReset, then once another
// End, from the goroutine that finds out. f must neither block nor write to the session. If the
// end has come already, f is called at once.
func (s *Session) OnEnd(f func(End)) {
	s.mu.Lock()
	s.onEnd = f
	ended, how := s.endSet, s.endWas
	s.mu.Unlock()
	if ended {
		f(how)
	}
}

// watched reports whether somebody keeps something for the connection.
func (s *Session) watched() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.onEnd != nil
}

// over reports the end of the connection; only the first report counts. After QUIT has gone to the
// upstream the end is EndQuit, whichever side closes first.
func (s *Session) over(how End) {
	if s.quit.Load() {
		how = EndQuit
	}
	s.mu.Lock()
	first := !s.endSet
	if first {
		s.endSet, s.endWas = true, how
	}
	s.mu.Unlock()
	if first {
		s.leave()
		s.report(how)
	}
}

// report tells who keeps something for the connection.
func (s *Session) report(how End) {
	s.mu.Lock()
	f := s.onEnd
	s.mu.Unlock()
	if f != nil {
		f(how)
	}
}

// Gone is closed when the client has ended its input, has sent QUIT behind the running command, or
// is not connected any more.
func (s *Session) Gone() <-chan struct{} { return s.gone }

// OnGone sets what is called, on a goroutine of its own, when Gone is closed while a command waits;
// nil for nothing. If that has happened before, f is called too. It may be called twice.
func (s *Session) OnGone(f func()) {
	s.mu.Lock()
	s.onGone = f
	s.mu.Unlock()
	select {
	case <-s.gone:
		s.callGone()
	default:
	}
}

// leave closes gone.
func (s *Session) leave() {
	s.left.Do(func() {
		close(s.gone)
		s.callGone()
	})
}

// callGone calls the function of OnGone. Whoever notices the end may hold locks that it needs.
func (s *Session) callGone() {
	s.mu.Lock()
	f := s.onGone
	s.mu.Unlock()
	if f != nil {
		s.spawn(f)
	}
}
