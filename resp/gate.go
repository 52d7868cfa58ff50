package resp

import (
	"errors"
	"net"
	"os"
	"sync"
	"time"
)

var errTwoWait = errors.New("two goroutines wait for one direction of a socket")

// gateState tells who is to be told when a gate opens.
type gateState uint8

const (
	gateIdle    gateState = iota // nobody: it is noted in ready
	gateWaiting                  // a goroutine, by wake
	gateWatched                  // the loop, which then carries the bytes itself
	gateRunning                  // the loop does so at this moment
)

// gate is one direction of a carried socket: where one waits until the socket is ready, the deadline has passed, or it was closed.
// Whoever leaves gateWaiting or gateWatched for gateIdle sends one value to wake. Safe for concurrent use.
type gate struct {
	mu      sync.Mutex // held during the system calls of this direction, so that the descriptor stays what it is
	state   gateState
	ready   bool // the socket became ready and was not tried since
	expired bool // the deadline has passed
	closed  bool
	result  error // why the loop stopped carrying; nil: it was told to
	timer   *time.Timer
	wake    chan struct{} // capacity 1
}

func (g *gate) init() { g.wake = make(chan struct{}, 1) }

// errLocked is why nothing is to be tried any more.
func (g *gate) errLocked() error {
	switch {
	case g.closed:
		return net.ErrClosed
	case g.expired:
		return os.ErrDeadlineExceeded
	}
	return nil
}

// open notes that the socket is ready. run: the caller, the loop, is to carry its bytes.
func (g *gate) open() (run, woke bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ready = true
	switch g.state {
	case gateWatched:
		g.state = gateRunning
		return true, false
	case gateWaiting:
		g.stopLocked(nil)
		return false, true
	}
	return false, false
}

// waitLocked waits until the gate opens or is interrupted, or with gateWatched until the loop no longer carries. It unlocks mu.
// Two who wait at a time would take each other's wake, so the second gets an error.
func (g *gate) waitLocked(as gateState) error {
	if g.state != gateIdle {
		g.mu.Unlock()
		return errTwoWait
	}
	g.state = as
	g.mu.Unlock()
	<-g.wake
	return nil
}

// stopLocked wakes the goroutine that waits or has the loop carry for it.
func (g *gate) stopLocked(result error) {
	if g.state != gateIdle {
		g.state, g.result = gateIdle, result
		g.wake <- struct{}{}
	}
}

// interruptLocked wakes it because of errLocked. While the loop is at work, that looks by itself when it is done.
func (g *gate) interruptLocked() {
	if g.state != gateRunning {
		g.stopLocked(g.errLocked())
	}
}

// setDeadline is that of net.Conn for this direction.
func (g *gate) setDeadline(t time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.timer != nil {
		g.timer.Stop()
		g.timer = nil
	}
	g.expired = false
	if t.IsZero() {
		return
	}
	left := time.Until(t)
	if left <= 0 {
		g.expired = true
		g.interruptLocked()
		return
	}
	var timer *time.Timer
	timer = time.AfterFunc(left, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.timer == timer { // else it has been set anew
			g.expired = true
			g.interruptLocked()
		}
	})
	g.timer = timer
}

// closeLocked ends all waiting.
func (g *gate) closeLocked() {
	g.closed = true
	if g.timer != nil {
		g.timer.Stop()
		g.timer = nil
	}
	g.interruptLocked()
}
