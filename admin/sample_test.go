package admin

import (
	"math"
	"testing"
	"time"

	"lockproxy/plain"
	"lockproxy/stat"
)

// TestSampleCoversItsInterval: rates and quantiles cover only the time between two samples.
func TestSampleCoversItsInterval(t *testing.T) {
	m := NewMeter(nil)
	start := time.Now()
	for range 1000 {
		m.Note(&stat.Event{Command: "lock", Outcome: "granted", Wait: false,
			Took: 50 * time.Microsecond}) // of before: it must not count
	}
	s := newSampler(m, start)
	for range 98 {
		m.Note(&stat.Event{Command: "lock", Outcome: "granted", Wait: false, Took: 900 * time.Microsecond})
	}
	for range 2 {
		m.Note(&stat.Event{Command: "lock", Outcome: "noquorum", Wait: false, Took: 100 * time.Millisecond})
	}
	for range 4 {
		m.Note(&stat.Event{Command: "lock", Outcome: "timeout", Wait: true, Took: time.Second})
		m.Note(&stat.Event{Command: "lock", Outcome: "granted", Wait: true, Took: 150 * time.Millisecond})
	}
	got := s.next(Snapshot{Waiters: 9, Traffic: stat.Traffic{Commands: 50}}, start.Add(2*time.Second))
	if got.Granted != 51 || got.Taken != 2 || got.Errors != 1 || got.Commands != 25 || got.Waiters != 9 {
		t.Errorf("got %+v", got)
	}
	value := func(p *float64) float64 {
		if p == nil {
			return -1
		}
		return *p
	}
	for name, c := range map[string]struct {
		got       *float64
		low, high float64
	}{"lock50": {got.Lock50, 0.65, 1.05}, "lock99": {got.Lock99, 68, 110}, "wait50": {got.Wait50, 100, 200},
		"wait99": {got.Wait99, 100, 200}} {
		t.Run(name, func(t *testing.T) {
			if got := value(c.got); got < c.low || got > c.high {
				t.Errorf("%s is %v, want %v to %v", name, got, c.low, c.high)
			}
		})
	}
	quiet := s.next(Snapshot{Traffic: stat.Traffic{Commands: 50}}, start.Add(3*time.Second))
	if quiet.Granted != 0 || quiet.Errors != 0 || quiet.Commands != 0 || quiet.Lock50 != nil || quiet.Wait99 != nil {
		t.Errorf("a quiet second is %+v", quiet)
	}
}

func TestQuantileAboveAllBounds(t *testing.T) {
	before := &buckets{bounds: []float64{1, 2}, counts: []uint64{0, 0}}
	after := &buckets{bounds: []float64{1, 2}, counts: []uint64{0, 0}, total: 3}
	if got := after.since(before, 0.5); got == nil || math.Abs(*got-2000) > 1e-9 {
		t.Errorf("got %v, want the last bound", got)
	}
}

func TestKeysAreShownPrintable(t *testing.T) {
	for text, want := range map[string]string{"job:1": "job:1", "Grüße ✓": "Grüße ✓",
		"<b>": "<b>", "a\nb": `a\nb`,
		"\xff": `\xff`, "a\u202eb": `a\u202eb`, "": "", `q"`: `q"`} {
		t.Run(text, func(t *testing.T) {
			if got := plain.Escape(text); got != want {
				t.Errorf("%q is shown as %q, want %q", text, got, want)
			}
		})
	}
}
