package queue

import (
	"context"
	"time"
)

// waitLimits are what ends a client's wait: its timeout, drain, or a disconnect.
type waitLimits struct {
	ctx      context.Context
	gone     <-chan struct{}
	draining <-chan struct{}
	timeout  <-chan time.Time // nil: none
}

// sleep waits for d.
func (limits waitLimits) sleep(d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	return limits.wait(nil, t.C)
}

// wait waits for ch, or for t.
func (limits waitLimits) wait(ch <-chan struct{}, t <-chan time.Time) error {
	select {
	case <-ch:
		return nil
	case <-t:
		return nil
	case <-limits.timeout:
		return ErrTimeout
	case <-limits.draining:
		return ErrDraining
	case <-limits.gone:
		return ErrDisconnected
	case <-limits.ctx.Done():
		return context.Cause(limits.ctx)
	}
}
