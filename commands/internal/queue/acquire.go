package queue

import (
	"context"
	"time"

	"lockproxy/quorum"
)

// waitLimits end a client's wait: its timeout, Drain, or a disconnect.
type waitLimits struct {
	ctx          context.Context
	disconnected <-chan struct{}
	draining     <-chan struct{}
	timeout      <-chan time.Time // nil: none
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
	case <-limits.disconnected:
		return ErrDisconnected
	case <-limits.ctx.Done():
		return context.Cause(limits.ctx)
	}
}

// Acquirer asks the masters for a lock without blocking.
type Acquirer interface {
	// AcquireAsync is (*quorum.Quorum).AcquireAsync, and Flush its Flush.
	AcquireAsync(want quorum.Request, done func(quorum.Lease, error)) (leave func() bool)
	Flush()
}

// Acquire makes one attempt for a client. Until the attempt is sent, it ends with ErrDisconnected
// when disconnected is closed, and with the cause of ctx. Once sent it ends with an answer.
func Acquire(ctx context.Context, disconnected <-chan struct{}, from Acquirer,
	want quorum.Request) (quorum.Lease, error) {
	lease, err, _ := acquire(from, want, waitLimits{ctx: ctx, disconnected: disconnected})
	return lease, err
}

// acquire makes one attempt. Until it is sent, the limits end it; want.Patience replaces their
// timeout. left: they did.
func acquire(from Acquirer, want quorum.Request, limits waitLimits) (lease quorum.Lease, err error, left bool) {
	decided := make(chan struct{})
	leave := from.AcquireAsync(want, func(l quorum.Lease, e error) {
		lease, err = l, e
		close(decided)
	})
	if leave == nil {
		from.Flush()
	} else {
		limits.timeout = nil
		if why := limits.wait(decided, nil); why != nil && leave() {
			return quorum.Lease{}, why, true
		}
	}
	<-decided
	return lease, err, false
}
