package quorum

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// waiter lets one caller wait for a decision that the readers of the lanes make.
type waiter struct {
	wake  chan struct{} // holds a value once there is a decision
	timer *time.Timer
}

func newWaiter() waiter {
	w := waiter{wake: make(chan struct{}, 1), timer: time.NewTimer(time.Hour)}
	w.timer.Stop()
	return w
}

// reset forgets a decision that nobody waited for.
func (w *waiter) reset() {
	select {
	case <-w.wake:
	default:
	}
}

func (w *waiter) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// wait returns nil when there is a decision or d is over, and the cause of ctx's end if that comes first.
func (w *waiter) wait(ctx context.Context, d time.Duration) error {
	w.timer.Reset(d)
	defer w.timer.Stop()
	select {
	case <-w.wake:
	case <-w.timer.C:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// pools keeps the state of calls that are over for the next ones. It belongs to one Quorum, as do the channels
// and timers in it.
type pools struct{ attempts, unlocks, extensions sync.Pool }

func (p *pools) init(q *Quorum) {
	n := len(q.opts.Masters)
	p.attempts.New = func() any {
		return &attempt{q: q, waiter: newWaiter(), votes: make([]vote, n)}
	}
	p.unlocks.New = func() any {
		return &unlock{q: q, waiter: newWaiter(), errs: make([]error, n)}
	}
	p.extensions.New = func() any {
		return &extension{q: q, waiter: newWaiter(), said: make([]extendSaid, n)}
	}
}

// users counts who may still touch the state of a call: its caller, and each command on a lane.
type users struct{ n atomic.Int32 }

func (u *users) start()     { u.n.Store(1) }
func (u *users) add()       { u.n.Add(1) }
func (u *users) done() bool { return u.n.Add(-1) == 0 } // true for the last one
