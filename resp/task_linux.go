package resp

import (
	"fmt"
	"runtime/debug"
)

// readsInRow is how often the loop reads one socket before it leaves that to its goroutine: so much at a time is a transfer, which must
// not keep the others waiting.
const readsInRow = 16

// task is what the loop does with the bytes of a sock. It belongs to the loop in gateRunning, and else to whoever holds the mutex of the
// gate.
type task struct {
	x      *inbox
	use    func(mayBlock bool) (stop bool)
	failed any // what use panicked with
}

// carryLocked lets the loop carry, and waits until that stops. It unlocks in.mu.
func (k *sock) carryLocked(x *inbox, use func(mayBlock bool) (stop bool)) error {
	x.release()
	k.task = task{x: x, use: use}
	if err := k.in.waitLocked(gateWatched); err != nil {
		return err
	}
	k.in.mu.Lock()
	result, failed := k.in.result, k.task.failed
	k.task = task{}
	k.in.mu.Unlock()
	if failed != nil {
		panic(failed)
	}
	return result
}

// carry is called by the loop when bytes are there and the gate is in gateRunning.
func (k *sock) carry() {
	defer func() {
		if p := recover(); p != nil {
			k.task.failed = fmt.Sprintf("%v, on the loop:\n%s", p, debug.Stack())
			k.endCarry()
		}
	}()
	x := k.task.x
	for range readsInRow {
		n, goesOn := k.readTask(x)
		if !goesOn {
			return
		}
		x.w += n
		if n > 0 && k.task.use(false) {
			break
		}
	}
	k.endCarry()
}

// endCarry lets the goroutine go on.
func (k *sock) endCarry() {
	k.in.mu.Lock()
	defer k.in.mu.Unlock()
	k.in.stopLocked(nil)
}

// readTask reads once for the task, or ends the loop's turn where nothing more is there, or nothing more will come.
func (k *sock) readTask(x *inbox) (n int, goesOn bool) {
	k.in.mu.Lock()
	defer k.in.mu.Unlock()
	err := k.in.errLocked()
	if err == nil && k.in.ready {
		if n, err = k.readLocked(x.room()); err == nil {
			return n, true
		}
	}
	x.release()
	if err != nil {
		k.in.stopLocked(err)
	} else {
		k.in.state = gateWatched
	}
	return 0, false
}
