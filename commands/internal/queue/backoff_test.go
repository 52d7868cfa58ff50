package queue

import (
	"fmt"
	"testing"
	"time"

	"lockproxy/quorum"
)

// TestBackoffDelays: each delay is twice the one before, up to a second, until an attempt meets a
// held lock or succeeds.
func TestBackoffDelays(t *testing.T) {
	var b backoff
	for _, want := range []time.Duration{20, 40, 80, 160, 320, 640, 1000, 1000} {
		if got := b.next(); got != want*time.Millisecond {
			t.Errorf("got %v, want %dms", got, want)
		}
	}
	b.refused(fmt.Errorf("lock: %w", quorum.ErrHeld), time.Now())
	if got := b.next(); got != firstRetry {
		t.Errorf("got %v after a held lock, want %v", got, firstRetry)
	}
}

// TestBackoffLasts: the time counts from the first of the faults in a row.
func TestBackoffLasts(t *testing.T) {
	start := time.Now()
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	for _, tt := range []struct {
		name   string
		errs   []error // one each second
		want   time.Duration
		reason error
	}{
		{"no attempt", nil, 0, nil},
		{"held", []error{quorum.ErrHeld}, 0, nil},
		{"one fault", []error{quorum.ErrLate}, 10 * time.Second, quorum.ErrLate},
		{"the last of two", []error{quorum.ErrLate, quorum.ErrNoQuorum}, 10 * time.Second, quorum.ErrNoQuorum},
		{"ended by a held lock", []error{quorum.ErrLate, quorum.ErrHeld}, 0, nil},
		{"again after a held lock", []error{quorum.ErrLate, quorum.ErrHeld, quorum.ErrFence},
			8 * time.Second, quorum.ErrFence},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var b backoff
			for i, err := range tt.errs {
				b.refused(err, at(i))
			}
			if got := b.lasts(at(10)); got != tt.want || b.fault != tt.reason {
				t.Errorf("lasts %v with %v, want %v with %v", got, b.fault, tt.want, tt.reason)
			}
		})
	}
}
