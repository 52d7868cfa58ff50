package netpoll

import (
	"net"
	"os"
	"runtime/debug"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// gateState says which waiter is woken when a gate opens.
type gateState uint8

const (
	gateIdle    gateState = iota // none: it is noted in ready
	gateWaiting                  // a goroutine, by wake
	gateWatched                  // the loop: the socket gets into the queue
	gateRunning                  // the loop has it in the queue or in hand; it looks at ready and err afterwards
)

// gate is one direction of a Socket. A goroutine or a loop waits at it until the socket is ready,
// the deadline passes or the socket is closed. Safe for concurrent use.
type gate struct {
	mu    sync.Mutex // held during the system calls of this direction, so that the descriptor stays
	timer *time.Timer
	wake  chan struct{} // capacity 1; made by the first who waits
	err   error         // why reads or writes fail: net.ErrClosed or os.ErrDeadlineExceeded
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

// waitUnlock waits until the gate opens or is interrupted, and unlocks mu. Two waiters would take
// each other's wake-up, so the second gets an error.
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
func (c *Socket) endUnlock(g *gate, err error) {
	state := g.state
	g.state = gateIdle
	if state == gateWaiting {
		g.wake <- struct{}{}
	}
	var ended func(err error)
	if state == gateWatched || state == gateRunning {
		ended, c.watch = c.watch.ended, watch{}
	}
	g.mu.Unlock()
	if state != gateIdle {
		c.loops.Yield()
	}
	if ended != nil {
		ended(err)
	}
}

// failUnlock makes the gate refuse everything because of err. It unlocks mu.
func (c *Socket) failUnlock(g *gate, err error) {
	g.err = err
	g.stopTimerLocked()
	if g.state == gateRunning { // the worker sees to the end
		g.mu.Unlock()
		return
	}
	c.endUnlock(g, err)
}

func (c *Socket) setDeadline(g *gate, t time.Time) error {
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
func (c *Socket) expire(g *gate, timer **time.Timer) {
	g.mu.Lock()
	if g.timer != *timer { // the deadline was set anew
		g.mu.Unlock()
		return
	}
	c.failUnlock(g, os.ErrDeadlineExceeded)
}

// watch says how the loop processes the bytes of a Socket. In gateRunning it belongs to the worker
// that has the Socket in hand, otherwise to the holder of in.mu. The field again needs in.mu in
// any case.
type watch struct {
	buf      *Buffer
	received func() (stop bool)
	ended    func(err error)
	again    bool // Requeue was called, and received was not since
}

// Watch makes the loop read c from now on, and returns at once. After each read into buf, a worker
// of the loop calls received, which must not block. Watching ends when
//   - received returns true: the error is nil;
//   - the input ends: io.EOF;
//   - a read fails, with its error;
//   - the read deadline passes, or was in the past already: os.ErrDeadlineExceeded;
//   - c is closed: net.ErrClosed;
//   - received panics: a *PanicError;
//   - c has another reader or watch already.
//
// Then ended is called, exactly once, and buf belongs to the caller again. It is called by the
// worker, by the timer of the deadline, by the goroutine that closes c or the Pollers or sets a
// deadline in the past, or by Watch itself before it returns. It must not block either. It may
// call Watch again.
//
// While c is watched, buf belongs to the loop and only received may touch it.
func (c *Socket) Watch(buf *Buffer, received func() (stop bool), ended func(err error)) {
	c.in.mu.Lock()
	if err := c.in.freeLocked(); err != nil {
		c.in.mu.Unlock()
		ended(err)
		return
	}
	c.watch = watch{buf: buf, received: received, ended: ended}
	c.endOrWatchUnlock(false, nil)
}

// Requeue makes the loop call received again even if it has read no more bytes. It calls received
// before the watch ends with the end of the input. If c is not watched, Requeue has no effect.
func (c *Socket) Requeue() {
	c.in.mu.Lock()
	defer c.in.mu.Unlock()
	switch c.in.state {
	case gateWatched:
		c.watch.again = true
		c.in.state = gateRunning
		c.loops.enqueue(c)
	case gateRunning:
		c.watch.again = true
	}
}

// event notes what happened to the socket, and puts it into the queue if it is watched.
func (c *Socket) event(events uint32) {
	if events&(unix.EPOLLRDHUP|unix.EPOLLHUP|unix.EPOLLERR|unix.EPOLLPRI) != 0 {
		c.untilEmpty.Store(true)
	}
	if events&(unix.EPOLLOUT|unix.EPOLLHUP|unix.EPOLLERR) != 0 && c.wants.Load() {
		c.out.mu.Lock()
		c.wants.Store(false)
		c.endUnlock(&c.out, nil)
	}
	if events&^unix.EPOLLOUT == 0 {
		return
	}
	c.in.mu.Lock()
	c.in.ready = true
	switch c.in.state {
	case gateWaiting:
		c.endUnlock(&c.in, nil)
		return
	case gateWatched:
		c.in.state = gateRunning
		c.loops.enqueue(c)
	}
	c.in.mu.Unlock()
}

// fill is called by the worker that took c from the queue, before handle. It reads once, or
// nothing after Requeue: received is then called without new bytes. some is false if received must
// not be called: the Socket is then watched again, or its watch has ended.
func (c *Socket) fill() (some bool) {
	c.in.mu.Lock()
	if c.watch.again && c.in.err == nil {
		c.watch.again = false
		c.in.mu.Unlock()
		return true
	}
	n, err := c.readLocked(c.watch.buf.Room())
	c.watch.buf.Grew(n)
	if n > 0 {
		c.in.mu.Unlock()
		return true
	}
	c.endOrWatchUnlock(err != nil, err)
	return false
}

// handle calls received with the bytes that fill has read.
func (c *Socket) handle() {
	stop, err := callReceived(c.watch.received)
	c.in.mu.Lock()
	if !stop && c.in.err != nil {
		stop, err = true, c.in.err
	}
	c.endOrWatchUnlock(stop, err)
}

// callReceived calls received. A panic ends the watch too.
func callReceived(received func() (stop bool)) (stop bool, err error) {
	defer func() {
		if p := recover(); p != nil {
			stop, err = true, &PanicError{Value: p, Stack: debug.Stack()}
		}
	}()
	return received(), nil
}

// endOrWatchUnlock ends the watch with err if stop is set. Otherwise c is watched on; if there may
// be more to read, it joins the end of the queue at once. It unlocks in.mu.
func (c *Socket) endOrWatchUnlock(stop bool, err error) {
	c.watch.buf.Release()
	if stop {
		c.endUnlock(&c.in, err)
		return
	}
	c.in.state = gateWatched
	if c.in.ready || c.watch.again {
		c.in.state = gateRunning
		c.loops.enqueue(c)
	}
	c.in.mu.Unlock()
}
