package netpoll

import (
	"runtime/debug"

	"golang.org/x/sys/unix"
)

// watch is what the loop does with the bytes of a Conn. It belongs to the worker that has the Conn in
// hand in gateRunning, and otherwise to whoever holds in.mu. The callback stopped is in the gate.
type watch struct {
	buf *Buffer
	use func() (stop bool)
	n   int // bytes read into buf and not yet counted there
}

// Watch makes the loop read c from now on, and returns at once. After each read into buf, a worker of
// the loop calls use, which must not block. Watching ends when
//   - use returns true: the error is nil;
//   - the input ends: io.EOF;
//   - a read fails, with its error;
//   - the read deadline passes, or was in the past already: os.ErrDeadlineExceeded;
//   - c is closed: net.ErrClosed;
//   - use panics: a *PanicError;
//   - somebody else reads or watches c already.
//
// Then stopped is called, exactly once, and buf belongs to the caller again. It is called by the
// worker, by the goroutine that closes c or sets the deadline, or by Watch itself before it returns.
// It must not block either. It may call Watch again.
//
// While c is watched, buf belongs to the loop and may only be touched by use.
func (c *Conn) Watch(buf *Buffer, use func() (stop bool), stopped func(err error)) {
	c.in.mu.Lock()
	ready, err := c.tryLocked()
	if err != nil {
		c.in.mu.Unlock()
		stopped(err)
		return
	}
	buf.Release()
	c.watch = watch{buf: buf, use: use}
	c.in.stopped = stopped
	c.in.state = gateWatched
	if ready {
		c.in.state = gateRunning
		c.loops.enqueue(c)
	}
	c.in.mu.Unlock()
}

// event notes what happened to the socket. run: the caller puts it into the queue.
func (c *Conn) event(events uint32) (run bool) {
	if events&(unix.EPOLLRDHUP|unix.EPOLLHUP|unix.EPOLLERR|unix.EPOLLPRI) != 0 {
		c.thorough.Store(true)
	}
	if events&(unix.EPOLLOUT|unix.EPOLLHUP|unix.EPOLLERR) != 0 {
		c.took()
	}
	if events&^unix.EPOLLOUT == 0 {
		return false
	}
	c.in.mu.Lock()
	c.in.ready = true
	woke := false
	switch c.in.state {
	case gateWatched:
		c.in.state = gateRunning
		run = true
	case gateWaiting:
		_, woke = c.in.endLocked()
	}
	c.in.mu.Unlock()
	c.tell(nil, woke, nil)
	return run
}

// fill reads one piece of a Conn from the queue. some is false where there is nothing to use: the
// Conn is then watched again, or its watch has ended.
func (c *Conn) fill() (some bool) {
	if c.watch.n > 0 { // read in an earlier turn
		return true
	}
	c.in.mu.Lock()
	err := c.in.errLocked()
	if err == nil && c.in.ready {
		if c.watch.n, err = c.readLocked(c.watch.buf.Room()); c.watch.n > 0 {
			c.in.mu.Unlock()
			return true
		}
	}
	c.settleUnlock(err != nil, err)
	return false
}

// handle lets use have what fill has read. again: there may be more to read.
func (c *Conn) handle() (again bool) {
	c.watch.buf.Grew(c.watch.n)
	c.watch.n = 0
	stop, err := callUse(c.watch.use)
	c.in.mu.Lock()
	if !stop {
		err = c.in.errLocked()
		stop = err != nil
	}
	return c.settleUnlock(stop, err)
}

// callUse calls use. A panic stops too.
func callUse(use func() (stop bool)) (stop bool, err error) {
	defer func() {
		if p := recover(); p != nil {
			stop, err = true, &PanicError{Value: p, Stack: debug.Stack()}
		}
	}()
	return use(), nil
}

// settleUnlock ends the watch with err (stop), or goes on: again means in the queue. It unlocks in.mu.
func (c *Conn) settleUnlock(stop bool, err error) (again bool) {
	c.watch.buf.Release()
	switch {
	case stop:
		c.watch = watch{}
		stopped, woke := c.in.endLocked()
		c.in.mu.Unlock()
		c.tell(stopped, woke, err)
		return false
	case c.in.ready:
		again = true
	default:
		c.in.state = gateWatched
	}
	c.in.mu.Unlock()
	return again
}
