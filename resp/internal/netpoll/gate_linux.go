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
	gateRunning                  // the loop has it in the queue or in hand; it looks at ready and err afterwards
)

// gate is one direction of a Conn. Somebody waits at it until the socket is ready, the deadline passes
// or the socket is closed. Safe for concurrent use.
type gate struct {
	mu    sync.Mutex // held during the system calls of this direction, so that the descriptor stays
	timer *time.Timer
	wake  chan struct{} // capacity 1; made by the first who waits
	err   error         // why nothing is to be tried any more: net.ErrClosed or os.ErrDeadlineExceeded
	state gateState
	ready bool // of input: the socket became ready and was not tried since
}

// freeLocked returns why a goroutine, or a new watch, may not use the gate.
func (g *gate) freeLocked() error {
	if g.err == nil && g.state != gateIdle {
		return errTwoWait
	}
	return g.err
}

// waitUnlock waits until the gate opens or is interrupted, and unlocks mu. Two waiters would take each
// other's wake-up, so the second gets an error.
func (g *gate) waitUnlock() error {
	if err := g.freeLocked(); err != nil || g.ready {
		g.mu.Unlock()
		return err
	}
	if g.wake == nil {
		g.wake = make(chan struct{}, 1)
	}
	g.state = gateWaiting
	g.mu.Unlock()
	<-g.wake
	return nil
}

// endUnlock ends the waiting at g, or the watch with err. It unlocks mu.
func (c *Conn) endUnlock(g *gate, err error) {
	state := g.state
	g.state = gateIdle
	if state == gateWaiting {
		g.wake <- struct{}{}
	}
	var stopped func(err error)
	if state == gateWatched || state == gateRunning {
		stopped, c.watch = c.watch.stopped, watch{}
	}
	g.mu.Unlock()
	if state != gateIdle {
		c.loops.GiveWay()
	}
	if stopped != nil {
		stopped(err)
	}
}

// failUnlock makes the gate refuse everything because of err. It unlocks mu.
func (c *Conn) failUnlock(g *gate, err error) {
	g.err = err
	if g.state == gateRunning { // the worker sees to the end
		g.mu.Unlock()
		return
	}
	c.endUnlock(g, err)
}

func (c *Conn) setDeadline(g *gate, t time.Time) error {
	g.mu.Lock()
	if g.err == net.ErrClosed {
		g.mu.Unlock()
		return net.ErrClosed
	}
	g.stopTimerLocked()
	g.err = nil
	left := time.Until(t)
	if left <= 0 && !t.IsZero() {
		c.failUnlock(g, os.ErrDeadlineExceeded)
		return nil
	}
	if !t.IsZero() {
		var timer *time.Timer
		timer = time.AfterFunc(left, func() { c.expire(g, &timer) })
		g.timer = timer
	}
	g.mu.Unlock()
	return nil
}

func (g *gate) stopTimerLocked() {
	if g.timer != nil {
		g.timer.Stop()
		g.timer = nil
	}
}

// expire is called by the timer. The variable timer is set under mu.
func (c *Conn) expire(g *gate, timer **time.Timer) {
	g.mu.Lock()
	if g.timer != *timer { // the deadline was set anew
		g.mu.Unlock()
		return
	}
	g.timer = nil
	c.failUnlock(g, os.ErrDeadlineExceeded)
}
