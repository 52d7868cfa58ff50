package quorum

import (
	"testing"
	"time"
)

// attempts runs n attempts of a window in front of masters that are rtt away and can take capacity
// of them a second, and returns when they have ended.
func (w *window) attempts(n int, now time.Time, rtt time.Duration, capacity float64, waits bool) time.Time {
	for range n {
		took := max(rtt, time.Duration(float64(w.size)/capacity*float64(time.Second)))
		now = now.Add(took / time.Duration(w.size)) // as many run at a time
		if w.ended(now, took, waits) {
			w.next(now, windowTarget(rtt))
		}
	}
	return now
}

// The window goes to the number of attempts at which one takes the target time.
func TestWindowConverges(t *testing.T) {
	for _, c := range []struct {
		name     string
		rtt      time.Duration
		capacity float64 // a second
		want     int
	}{
		{"near", 200 * time.Microsecond, 10000, 202},
		{"near and fast", 200 * time.Microsecond, 80000, 1616},
		{"far", 100 * time.Millisecond, 10000, 2000},
		{"too slow for the least", 200 * time.Microsecond, 500, minWindow},
		{"far, and no end of it", 300 * time.Millisecond, 1e6, maxWindow},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, size := range []int{minWindow, 500, maxWindow} {
				w := window{size: size}
				w.attempts(100*maxWindow, time.Now(), c.rtt, c.capacity, true)
				if w.size < c.want*9/10 || w.size > c.want*11/10 {
					t.Errorf("from %d it goes to %d, want %d", size, w.size, c.want)
				}
			}
		})
	}
}

// The window keeps its size while no LOCK waits: the capacity is unknown then.
func TestWindowStaysWithoutLoad(t *testing.T) {
	w := window{size: 200}
	w.attempts(10000, time.Now(), time.Millisecond, 1e6, false)
	if w.size != 200 {
		t.Errorf("size %d, want 200", w.size)
	}
}

// All attempts of a window that meet one pause of the masters count once.
func TestWindowOutlivesHiccup(t *testing.T) {
	w := window{size: 400}
	now := w.attempts(1000, time.Now(), time.Millisecond, 20000, true)
	before := w.size
	begun := now
	now = now.Add(time.Second)
	for range before {
		if w.ended(begun, time.Second, true) {
			w.next(now, windowTarget(time.Millisecond))
		}
	}
	if least := before * 7 / 10; w.size < least {
		t.Errorf("size %d after a pause, was %d, want at least %d", w.size, before, least)
	}
	if w.attempts(3*before, now, time.Millisecond, 20000, true); w.size < before*9/10 {
		t.Errorf("size %d some attempts after a pause, was %d", w.size, before)
	}
}
