package clock

import (
	"testing"
	"time"
)

func TestPeakIsOfThisPeriodAndTheLast(t *testing.T) {
	var p Peak
	begun := time.Now()
	at := func(d time.Duration) time.Time { return begun.Add(d) }
	for _, step := range []struct {
		at   time.Duration
		note time.Duration // 0: none
		want time.Duration
	}{
		{0, 0, 0},
		{0, 5, 5},
		{time.Second, 3, 5},
		{2 * time.Second, 2, 5}, // of the period before
		{3 * time.Second, 0, 5},
		{4 * time.Second, 0, 2},
		{5 * time.Second, 1, 2},
		{9 * time.Second, 0, 0}, // no note for two periods
		{20 * time.Second, 7, 7},
	} {
		if step.note > 0 {
			p.Note(step.note, at(step.at))
		}
		if got := p.Max(at(step.at)); got != step.want {
			t.Errorf("after %v: %d, want %d", step.at, got, step.want)
		}
	}
}
