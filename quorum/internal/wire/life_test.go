package wire

import (
	"testing"
	"time"
)

// After the longest attempt, and what clocks take, a promise is left; with a millisecond less it
// would not be.
func TestLife(t *testing.T) {
	left := func(life, promise time.Duration) time.Duration {
		return life - life/100 - 2*time.Millisecond - AttemptTime(promise)
	}
	for promise := time.Millisecond; promise < 8760*time.Hour; promise += max(time.Millisecond,
		(promise / 997).Truncate(time.Millisecond)) {
		life := Life(promise)
		if left(life, promise) < promise || left(life-time.Millisecond, promise) >= promise || life%time.Millisecond != 0 {
			t.Fatalf("Life(%v) = %v", promise, life)
		}
		if got := Promised(life); got != promise {
			t.Fatalf("Promised(Life(%v)) = %v", promise, got)
		}
		if got := Promised(life - time.Millisecond); got >= promise {
			t.Fatalf("Promised(%v) = %v", life-time.Millisecond, got)
		}
	}
	for rest, want := range map[time.Duration]time.Duration{
		-time.Second: 0, 0: 0, 4 * time.Millisecond: 0, 6 * time.Millisecond: 1 * time.Millisecond,
		31315 * time.Millisecond: 29999 * time.Millisecond, 31316 * time.Millisecond: 30 * time.Second,
	} {
		if got := Promised(rest); got != want {
			t.Errorf("Promised(%v) = %v, want %v", rest, got, want)
		}
	}
}
