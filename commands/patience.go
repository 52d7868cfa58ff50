package commands

import (
	"context"
	"time"
)

// patience is what ends the waiting of one client.
type patience struct {
	ctx      context.Context
	gone     <-chan struct{}
	draining <-chan struct{}
	timeout  <-chan time.Time // nil: none
}

// until waits for ch.
func (p patience) until(ch <-chan struct{}) error {
	select {
	case <-ch:
		return nil
	default:
	}
	return p.wait(ch, nil)
}

// sleep waits for d.
func (p patience) sleep(d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	return p.wait(nil, t.C)
}

// chance waits for a signal, at most d and at most slowTimer.
func (p patience) chance(l *line, d time.Duration) error {
	t := time.NewTimer(min(d, slowTimer))
	defer t.Stop()
	return p.wait(l.signal, t.C)
}

func (p patience) wait(ch <-chan struct{}, t <-chan time.Time) error {
	select {
	case <-ch:
		return nil
	case <-t:
		return nil
	case <-p.timeout:
		return errTimeout
	case <-p.draining:
		return errTimeout
	case <-p.gone:
		return errLeft
	case <-p.ctx.Done():
		return context.Cause(p.ctx)
	}
}
