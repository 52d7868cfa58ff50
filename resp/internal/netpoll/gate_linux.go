package netpoll

import (
	"net"
	"os"
	"sync"
	"time"
)

// gateState says who learns that a gate opens.
type gateState uint8

const (
	gateIdle    gateState = iota // nobody: it is noted in ready
	gateWaiting                  // a goroutine, by wake
	gateWatched                  // the loop: the socket gets into the queue
	gateRunning                  // the loop has it in the queue or in hand; it looks at ready afterwards
)

// gate is one direction of a Conn. Somebody waits at it until the socket is ready, the deadline passes
// or the socket is closed. Safe for concurrent use.
type gate struct {
	mu      sync.Mutex // held during the system calls of this direction, so that the descriptor stays
	timer   *time.Timer
	wake    chan struct{}   // capacity 1; made by the first who waits
	stopped func(err error) // of the watch, in gateWatched and gateRunning
	state   gateState
	ready   bool // the socket became ready and was not tried since
	expired bool // the deadline has passed
	closed  bool
}

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

// waitLocked waits until the gate opens or is interrupted. It unlocks mu. Two waiters would take each
// other's wake-up, so the second gets an error.
func (g *gate) waitLocked() error {
	if g.state != gateIdle {
		g.mu.Unlock()
		return errTwoWait
	}
	if g.wake == nil {
		g.wake = make(chan struct{}, 1)
	}
	g.state = gateWaiting
	g.mu.Unlock()
	<-g.wake
	return nil
}

// endLocked ends the waiting or watching. It returns whether there was any, and for a watch the
// function to call once mu is unlocked.
func (g *gate) endLocked() (stopped func(err error), ended bool) {
	stopped, ended = g.stopped, g.state != gateIdle
	if g.state == gateWaiting {
		g.wake <- struct{}{}
	}
	g.stopped, g.state = nil, gateIdle
	return stopped, ended
}

// interruptLocked is endLocked because of errLocked. In gateRunning the loop sees to that itself.
func (g *gate) interruptLocked() (stopped func(err error), ended bool) {
	if g.state == gateRunning {
		return nil, false
	}
	return g.endLocked()
}

// closeLocked makes the gate refuse everything.
func (g *gate) closeLocked() (stopped func(err error), ended bool) {
	g.closed = true
	g.stopTimerLocked()
	return g.interruptLocked()
}

// setDeadlineLocked is SetDeadline of net.Conn for this direction.
func (g *gate) setDeadlineLocked(t time.Time) (stopped func(err error), ended bool) {
	g.stopTimerLocked()
	g.expired = false
	if g.closed || t.IsZero() {
		return nil, false
	}
	left := time.Until(t)
	if left <= 0 {
		g.expired = true
		return g.interruptLocked()
	}
	var timer *time.Timer
	timer = time.AfterFunc(left, func() { g.expire(&timer) })
	g.timer = timer
	return nil, false
}

func (g *gate) stopTimerLocked() {
	if g.timer != nil {
		g.timer.Stop()
		g.timer = nil
	}
}

// expire is called by the timer. The variable timer is set under mu.
func (g *gate) expire(timer **time.Timer) {
	g.mu.Lock()
	var stopped func(err error)
	if g.timer == *timer { // otherwise the deadline was set anew
		g.timer = nil
		g.expired = true
		stopped, _ = g.interruptLocked()
	}
	g.mu.Unlock()
	if stopped != nil {
		stopped(os.ErrDeadlineExceeded)
	}
}
