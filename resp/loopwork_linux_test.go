package resp

import (
	"testing"
	"time"
)

// A loop that has nothing to do looks again, but not where that would leave the processor to one who computes.
func TestLoopLooksAgain(t *testing.T) {
	for _, c := range []struct {
		name string
		took time.Duration
		want int
	}{
		{"beside those who soon sleep", yieldMost - 1, 2 + looksAgain},
		{"beside one who computes", time.Hour, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newTurnPair(t, func(_, _ *sock) {})
			looks := 0
			p.l.busy = func() bool {
				looks++
				return false
			}
			p.l.yielded(time.Now(), c.took)
			p.l.work()
			if looks != c.want && (c.took >= yieldMost || p.l.noYield.IsZero()) { // else the machine has such a one
				t.Errorf("looked %d times, want %d", looks, c.want)
			}
		})
	}
}

func TestLoopYieldsAgain(t *testing.T) {
	var l loop
	if l.yielded(time.Now(), yieldMost-1); !l.noYield.IsZero() {
		t.Error("yields no more after a short while")
	}
	l.yielded(time.Now(), yieldMost)
	if l.yield() {
		t.Error("yields again at once")
	}
	l.yielded(time.Now().Add(-yieldRarely*yieldMost), yieldMost)
	if !l.yield() {
		t.Error("does not yield after a while")
	}
}
