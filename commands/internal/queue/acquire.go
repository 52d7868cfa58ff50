package queue

import (
	"context"

	"lockproxy/quorum"
)

// Acquirer asks the masters for a lock without blocking.
type Acquirer interface {
	// AcquireAsync is (*quorum.Quorum).AcquireAsync, and Flush its Flush.
	AcquireAsync(want quorum.Request, done func(quorum.Lease, error)) (leave func() bool)
	Flush()
}

// Acquire makes one attempt for a client. While it cannot be sent, it ends with ErrDisconnected when
// gone is closed, and with the cause of ctx. Once sent it ends with an answer.
func Acquire(ctx context.Context, gone <-chan struct{}, from Acquirer, want quorum.Request) (quorum.Lease, error) {
	lease, err, _ := acquire(from, want, waitLimits{ctx: ctx, gone: gone})
	return lease, err
}

// acquire makes one attempt, which the limits end while it cannot be sent; want.Patience replaces
// their timeout. left: they did.
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
