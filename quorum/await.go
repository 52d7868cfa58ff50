package quorum

import (
	"context"
	"sync"
	"time"

	"lockproxy/quorum/internal/clock"
)

// Await lets a goroutine wait for an asynchronous call. It calls begin, then flush, and returns
// the result that begin passes to done, or the cause of ctx's end if that comes first: the call
// then goes on without it. late is the time from done to the return, which a busy machine may
// stretch.
func Await[T any](ctx context.Context, flush func(),
	begin func(done func(T, error))) (got T, late time.Duration, err error) {
	type result struct {
		value T
		err   error
		since clock.Stopwatch
	}
	done := make(chan result, 1)
	begin(func(value T, err error) { done <- result{value, err, clock.Start()} })
	flush()
	select {
	case r := <-done:
		return r.value, r.since.Elapsed(), r.err
	case <-ctx.Done():
		return got, 0, context.Cause(ctx)
	}
}

// AwaitValidity is Await for a call that returns a validity, such as [Quorum.ExtendAsync]. It
// takes off how late the goroutine has woken up, and returns ErrLate if no validity is left. If
// ctx has ended before, it does not call begin.
func AwaitValidity(ctx context.Context, flush func(),
	begin func(done func(time.Duration, error))) (time.Duration, error) {
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	left, late, err := Await(ctx, flush, begin)
	switch left -= late; {
	case err != nil:
		return 0, err
	case left <= 0:
		return 0, ErrLate
	}
	return left, nil
}

// gather returns the function to pass to n calls. It passes each result to merge, one at a time,
// and calls done after the last.
func gather[T any](n int, merge func(T, error), done func()) func(T, error) {
	var mu sync.Mutex
	return func(value T, err error) {
		mu.Lock()
		merge(value, err)
		n--
		last := n == 0
		mu.Unlock()
		if last {
			done()
		}
	}
}
