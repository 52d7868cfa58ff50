package queue

import (
	"context"
	"time"
)

// patience is what ends the waiting of one client.
type waitLimits struct {
	ctx      context.Context
	gone     <-chan struct{}
	draining <-chan struct{}
	timeout  <-chan time.Time // nil: none
}

// until waits for ch.
func (p waitLimits) until(ch <-chan struct{}) error {
	select {
	case <-ch:
		return nil
	default:
	}
	return p.wait(ch, nil)
}

// sleep waits for d.
func (p waitLimits) sleep(d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	return p.wait(nil, t.C)
}

// chance waits for a signal, at most d and at most slowTimer.
func (p waitLimits) wakeUp(l *waitQueue, d time.Duration) error {
	t := time.NewTimer(min(d, pollEvery))
	defer t.Stop()
	return p.wait(l.wakeUp, t.C)
}

func (p waitLimits) wait(ch <-chan struct{}, t <-chan time.Time) error {
	select {
	case <-ch:
		return nil
	case <-t:
		return nil
	case <-p.timeout:
		return ErrTimeout
	case <-p.draining:
		return ErrTimeout
	case <-p.gone:
		return ErrDisconnected
	case <-p.ctx.Done():
		return context.Cause(p.ctx)
	}
}
