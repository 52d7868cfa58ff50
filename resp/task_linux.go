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
	n      int // bytes read into x and not yet counted there
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

// carry is called by the loop when readTask has read, and goes on until nothing is left.
func (k *sock) carry() {
	defer func() {
		if p := recover(); p != nil {
			k.task.failed = fmt.Sprintf("%v, on the loop:\n%s", p, debug.Stack())
			k.endCarry()
		}
	}()
	for row := 1; ; row++ {
		k.task.x.w += k.task.n
		if k.task.use(false) || row == readsInRow {
			break
		}
		if !k.readTask() {
			return
		}
	}
	k.endCarry()
}

// endCarry lets the goroutine go on.
func (k *sock) endCarry() {
	k.in.mu.Lock()
	defer k.in.mu.Unlock()
	k.loop.wakes()
	k.in.stopLocked(nil)
}

// readTask reads once for the task, or ends the loop's turn where nothing more is there, or nothing more will come.
func (k *sock) readTask() (some bool) {
	k.in.mu.Lock()
	defer k.in.mu.Unlock()
	err := k.in.errLocked()
	if err == nil && k.in.ready {
		if k.task.n, err = k.readLocked(k.task.x.room()); k.task.n > 0 {
			return true
		}
	}
	k.task.x.release()
	if err != nil {
		k.loop.wakes()
		k.in.stopLocked(err)
	} else {
		k.in.state = gateWatched
	}
	return false
}
