package resp

import (
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"syscall"

	"lockproxy/plain"
)

// state is a stage in the life of a connection. A connection never returns to an earlier one.
type state uint32

const (
	stateOpen       state = iota // both sides may send
	stateDraining                // as open, until the connection is at rest: then the last read is made
	stateEnding                  // what the last read found is served, and the connection ends at rest
	stateHalfClosed              // no more requests are served; the client still gets the upstream's last replies
	stateLingering               // the upstream has closed; the client's last bytes are discarded
	stateClosed                  // both sockets are closed
)

// cause is a reason for a connection to change its state.
type cause uint8

const (
	causeDrain       cause = iota // the server shuts down, or the upstream was replaced
	causeRest                     // the connection was at rest, and its last read was made
	causeFinish                   // the client or the upstream's bytes ended, or the proxy serves no more
	causeUpstreamEnd              // the upstream closed in order, and its last reply was written
	causeCut                      // a failure, a limit, or the end of a shutdown's patience
)

// transitions has the state that follows each state for each cause.
var transitions = [...][5]state{
	//               causeDrain       causeRest        causeFinish      causeUpstreamEnd causeCut
	stateOpen:       {stateDraining, stateOpen, stateHalfClosed, stateLingering, stateClosed},
	stateDraining:   {stateDraining, stateEnding, stateHalfClosed, stateLingering, stateClosed},
	stateEnding:     {stateEnding, stateEnding, stateHalfClosed, stateLingering, stateClosed},
	stateHalfClosed: {stateHalfClosed, stateHalfClosed, stateHalfClosed, stateLingering, stateClosed},
	stateLingering:  {stateLingering, stateLingering, stateLingering, stateLingering, stateClosed},
	stateClosed:     {stateClosed, stateClosed, stateClosed, stateClosed, stateClosed},
}

// End is the reason why a connection ended.
type End uint8

const (
	EndClient End = iota // the client closed or reset the connection
	EndQuit              // the client said QUIT
	EndReset             // the client sent RESET to an upstream that knows it: the connection goes on as a new one
	EndProxy             // another cause: the upstream, a limit, a shutdown, or a network that went silent
)

// endOf returns the reason for an end with err, from reading or writing the client's socket; nil:
// neither has failed.
func endOf(err error) End {
	is := func(target error) bool { return errors.Is(err, target) }
	switch {
	case is(os.ErrDeadlineExceeded), is(syscall.ETIMEDOUT), is(syscall.EHOSTUNREACH):
		return EndProxy // the network was silent: the client may well be alive
	case is(io.EOF), plain.Reset(err):
		return EndClient
	}
	return EndProxy
}

// lifecycle owns a connection's state and the reason of its end, and calls the functions that
// wait for either. It touches no socket. Safe for concurrent use.
type lifecycle struct {
	quit  atomic.Bool   // QUIT was forwarded: the connection will end as EndQuit
	left  chan struct{} // see Session.ClientClosed
	spawn func(func())  // runs a function on a goroutine of its own

	current atomic.Uint32 // a state; changed with mu held

	mu     sync.Mutex
	reason End // valid from stateHalfClosed on
	onEnd  func(End)
	onLeft func()
}

// init prepares an open connection. spawn runs a function on a goroutine of its own.
func (l *lifecycle) init(spawn func(func())) {
	l.left, l.spawn = make(chan struct{}), spawn
}

// now returns the state.
func (l *lifecycle) now() state { return state(l.current.Load()) }

// draining reports whether the connection will end at rest.
func (l *lifecycle) draining() bool {
	now := l.now()
	return now == stateDraining || now == stateEnding
}

// drain reports whether it changed the state.
func (l *lifecycle) drain() bool { return l.change(causeDrain) }

// beginEnding is called after the last read of a draining connection.
func (l *lifecycle) beginEnding() { l.change(causeRest) }

// change applies a cause that does not end the connection. It reports whether that changed the
// state.
func (l *lifecycle) change(c cause) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, changed := l.applyLocked(c)
	return changed
}

// end applies a cause that ends the connection. The first call sets the reason, which is reason
// or, after QUIT, EndQuit, and reports it to the function of onEnd.
func (l *lifecycle) end(c cause, reason End) {
	if l.quit.Load() {
		reason = EndQuit
	}
	l.mu.Lock()
	before, _ := l.applyLocked(c)
	first := before < stateHalfClosed
	if first {
		l.reason = reason
	}
	l.mu.Unlock()
	if first {
		l.leave()
		l.report(reason)
	}
}

// applyLocked changes the state as transitions says.
func (l *lifecycle) applyLocked(c cause) (before state, changed bool) {
	before = l.now()
	after := transitions[before][c]
	l.current.Store(uint32(after))
	return before, after != before
}

// report calls the function that setOnEnd has set.
func (l *lifecycle) report(reason End) {
	l.mu.Lock()
	f := l.onEnd
	l.mu.Unlock()
	if f != nil {
		f(reason)
	}
}

// setOnEnd sets the function that is called with the reason of the end; at once if there is one.
func (l *lifecycle) setOnEnd(f func(End)) {
	l.mu.Lock()
	l.onEnd = f
	ended, reason := l.now() >= stateHalfClosed, l.reason
	l.mu.Unlock()
	if ended {
		f(reason)
	}
}

// watched reports whether setOnEnd was called.
func (l *lifecycle) watched() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.onEnd != nil
}

// leave closes left. It may be called again.
func (l *lifecycle) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.left:
	default:
		close(l.left)
		l.callLeftLocked()
	}
}

// setOnLeft sets the function that leave calls; it is called at once if left is closed.
func (l *lifecycle) setOnLeft(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.onLeft = f
	select {
	case <-l.left:
		l.callLeftLocked()
	default:
	}
}

// callLeftLocked calls the function of setOnLeft on a goroutine, because the caller may hold locks
// that the function needs.
func (l *lifecycle) callLeftLocked() {
	if l.onLeft != nil {
		l.spawn(l.onLeft)
	}
}
