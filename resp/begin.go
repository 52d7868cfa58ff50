package resp

import (
	"errors"
	"os"
	"sync"

	"lockproxy/resp/internal/scan"
)

// A lock command whose turn has come on a loop runs without a goroutine, if Options.Begin takes
// it. The loop goes on watching the client. What comes meanwhile stays in the buffer; the end of
// the input is dealt with when the reply is written. Then the loop goes on with what has come, if
// anything has.

// begunAtOnce is how many lock commands of one client are begun, and answered, before others have
// their turn.
const begunAtOnce = 16

// phase is how far a command that was begun has got.
type phase uint8

const (
	phaseNone   phase = iota // there is none
	phaseBegins              // Begin runs
	phaseRuns                // Begin has returned
	phaseOver                // the reply was written before Begin has returned
)

// begun is the command that was begun last.
type begun struct {
	mu      sync.Mutex // taken before any other of this package
	number  uint64     // of the command: calls of done for another one mean nothing
	phase   phase
	done    bool  // done was called
	waits   bool  // bytes came, which the pump is to deal with
	stopped bool  // the loop watches the client no more
	reason  error // why
	broken  bool  // Begin panicked, and done was not called
}

// useOnLoop is use on a loop, where it must not block.
func (s *Session) useOnLoop() (stop bool) {
	if s.running.Load() && s.begun.comeBehind() {
		return s.keepBehind()
	}
	s.onLoop = true
	stop = s.useAndBegin()
	s.onLoop = false
	return stop
}

// useAndBegin uses what is there and begins lock commands, until one of them is not answered at
// once.
func (s *Session) useAndBegin() (stop bool) {
	for range begunAtOnce {
		if len(s.in.Bytes()) == 0 {
			return s.life.draining() && s.atRest() // a client that asks on at once would never be met at rest later
		}
		if stop = s.use(); !stop || !s.mayBegin() {
			return stop
		}
		switch s.begin() {
		case phaseNone:
			return true
		case phaseRuns:
			return s.keepBehind()
		}
	}
	s.polled.Requeue()
	return false
}

// mayBegin reports whether a lock command is complete, and may run at once.
func (s *Session) mayBegin() bool {
	return s.step == stepOwn && s.srv.o.Begin != nil && len(s.unsent) == 0 && s.regular()
}

// begin begins the lock command that is complete. It returns phaseNone if Begin does not take it.
func (s *Session) begin() phase {
	s.step = stepPump
	s.running.Store(true)
	number := s.begun.start()
	if !s.srv.o.Begin(s.lockConn(), ownCommand(s.req.Argv), func() { s.done(number) }) {
		s.step = stepOwn
		s.begun.refused()
		s.running.Store(false)
		return phaseNone
	}
	now := s.begun.returned(len(s.in.Bytes()) > 0)
	if now == phaseOver {
		s.running.Store(false)
	}
	return now
}

// start makes place for a command and returns its number.
func (b *begun) start() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.number++
	b.phase, b.done, b.waits, b.stopped = phaseBegins, false, false, false
	return b.number
}

// refused ends a command that Begin does not take.
func (b *begun) refused() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.phase, b.done = phaseNone, true
}

// returned is called when Begin has returned. waits: bytes are there behind the command.
func (b *begun) returned(waits bool) phase {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.phase == phaseOver {
		b.phase = phaseNone
		return phaseOver
	}
	b.phase, b.waits = phaseRuns, waits
	return phaseRuns
}

// comeBehind is called when bytes have come. It reports whether a command runs.
func (b *begun) comeBehind() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waits = true
	return b.phase == phaseRuns
}

// keepBehind leaves what has come behind a running command where it is. stop: it is too much for
// that.
func (s *Session) keepBehind() (stop bool) {
	b := s.in.Bytes()
	s.progress.read.Add(uint64(len(b) - s.seen))
	s.seen, s.kept = len(b), len(b) > 0
	s.readAhead.findQuit(b)
	return len(b) >= aheadOwn
}

// stopsBehind is called when the loop watches the client no more. It reports whether a command
// runs, whose end is awaited first. Meanwhile the client is read ahead, if there may be more.
func (s *Session) stopsBehind(err error) (later bool) {
	b := &s.begun
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.phase == phaseBegins && !b.done:
		b.done, b.broken, b.phase = true, true, phaseNone
		return false
	case b.phase == phaseNone || b.phase == phaseOver:
		b.phase = phaseNone
		return false
	}
	b.phase, b.stopped, b.reason = phaseRuns, true, err
	if err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		s.readAhead.startNow(s.in.Bytes())
	} else {
		s.life.leave()
	}
	return true
}

// done is called when the reply of a command that was begun is in s.own.
func (s *Session) done(number uint64) {
	if !s.begun.isDone(number) {
		return
	}
	wait := s.out.tryReply(s.own.take())
	if wait != nil || s.own.closed {
		s.spawn(func() { s.waitReply(wait) })
		return
	}
	s.delivered(nil)
	s.goOn()
}

// isDone notes that the reply is there. Only the first call for the running command counts.
func (b *begun) isDone(number uint64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	first := number == b.number && !b.done
	b.done = b.done || first
	return first
}

// waitReply is the rest of done where that has to wait, or the connection ends.
func (s *Session) waitReply(wait func() error) {
	defer s.goOn()
	defer s.contain("command")
	var err error
	if wait != nil {
		err = wait()
	}
	s.delivered(err)
	if err != nil {
		s.life.end(eventFinish, endOf(err))
	}
	if err != nil || s.own.closed {
		s.teardown()
	}
}

// goOn lets the pump go on behind a command whose reply was written, or cannot be.
func (s *Session) goOn() {
	b := &s.begun
	b.mu.Lock()
	if b.phase == phaseBegins {
		b.phase = phaseOver
		b.mu.Unlock()
		return
	}
	b.phase = phaseNone
	s.running.Store(false)
	waits, stopped, reason := b.waits, b.stopped, b.reason
	b.reason = nil
	b.mu.Unlock()
	switch {
	case stopped:
		s.spawn(func() { s.run(reason) })
	case waits || s.life.now() != stateOpen:
		s.polled.Requeue()
	}
}

// spawn runs f on a goroutine, for which the loops make room.
func (s *Session) spawn(f func()) {
	s.srv.wg.Go(f)
	s.srv.loops.poll.GiveWay()
}

// regular reports whether a lock command may run without a question to the upstream: everything
// before it is answered, and the connection's standing is known.
func (s *Session) regular() bool {
	return s.up == nil || s.proto.Ready()
}

// lockAlone reports whether what is there begins with a lock command that needs no connection to
// the upstream.
func (s *Session) lockAlone() bool {
	return s.srv.o.Begin != nil && s.up == nil && s.req.Between() && scan.WholeLock(s.in.Bytes()) && !s.proto.Limited()
}
