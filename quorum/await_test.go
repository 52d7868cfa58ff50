package quorum

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// A goroutine gets the validity that is left when it wakes up.
func TestAwaitValidity(t *testing.T) {
	gaveUp, failed := errors.New("gave up"), errors.New("failed")
	for _, tt := range []struct {
		name     string
		validity time.Duration
		err      error
		late     time.Duration // after done, before the goroutine runs again
		ended    bool          // ctx has ended before
		want     time.Duration
		wantErr  error
	}{
		{"in time", time.Second, nil, 0, false, time.Second, nil},
		{"late", time.Second, nil, 300 * time.Millisecond, false, 700 * time.Millisecond, nil},
		{"too late", time.Second, nil, time.Second, false, 0, ErrLate},
		{"failed", 0, failed, time.Second, false, 0, failed},
		{"given up before", time.Second, nil, 0, true, 0, gaveUp},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				if tt.ended {
					cancel(gaveUp)
				}
				begun := false
				got, err := AwaitValidity(ctx, func() { time.Sleep(tt.late) }, func(done func(time.Duration, error)) {
					begun = true
					done(tt.validity, tt.err)
				})
				if got != tt.want || err != tt.wantErr || begun == tt.ended {
					t.Errorf("got %v, %v, begun %v; want %v, %v", got, err, begun, tt.want, tt.wantErr)
				}
			})
		})
	}
}

// TestAwaitEndsWithContext: a call that outlives the context may still call done.
func TestAwaitEndsWithContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		got, _, err := Await(ctx, func() {}, func(done func(int, error)) {
			time.AfterFunc(2*time.Second, func() { done(1, nil) })
		})
		if got != 0 || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, %v", got, err)
		}
		time.Sleep(2 * time.Second)
	})
}
