package quorum

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// drain returns when the last call has left and the last release is answered, in any order, or
// with the number of pending releases when its context ends.
func TestCallsDrain(t *testing.T) {
	for _, c := range []struct {
		name        string
		call        time.Duration // until the call leaves; 0: none runs
		release     time.Duration // until the release is answered; 0: none is pending
		want        time.Duration
		wantPending int
	}{
		{name: "idle"},
		{name: "a call runs", call: time.Second, want: time.Second},
		{name: "a release is pending", release: time.Second, want: time.Second},
		{name: "the call leaves first", call: time.Second, release: 2 * time.Second, want: 2 * time.Second},
		{name: "the release is answered first", call: 2 * time.Second, release: time.Second, want: 2 * time.Second},
		{name: "a call runs for too long", call: time.Hour, want: time.Minute},
		{name: "a release is pending for too long", release: time.Hour, want: time.Minute, wantPending: 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				calls := newCalls()
				calls.closing.Store(true)
				var pending atomic.Int64
				if c.call > 0 {
					calls.enter()
					time.AfterFunc(c.call, calls.leave)
				}
				if c.release > 0 {
					pending.Store(1)
					time.AfterFunc(c.release, func() { pending.Store(0); calls.wake() })
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				began := time.Now()
				got := calls.drain(ctx, func() int { return int(pending.Load()) })
				if took := time.Since(began); got != c.wantPending || took != c.want {
					t.Errorf("%d releases pending after %v, want %d after %v", got, took, c.wantPending, c.want)
				}
			})
		})
	}
}
