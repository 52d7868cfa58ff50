package admission

import (
	"testing"
	"time"
)

// asked is a clock that answers.
type asked struct {
	Clock
	at, offset time.Duration
	suspended  time.Duration
}

// ask lets an answer take so long, and reports whether it shows a step.
func (a *asked) ask(took time.Duration) bool {
	sent := a.at
	a.at += took
	return a.Stepped("run", sent, a.at, sent+took/2+a.offset, a.suspended)
}

// TestClock: all answers of a clock that runs at up to 1% off agree, however long each took; a
// slow answer does not hide a step of more than the tolerance.
func TestClock(t *testing.T) {
	c := &asked{at: time.Second, offset: time.Hour}
	if c.ask(time.Millisecond) {
		t.Error("the first answer is a step")
	}
	for i := range 1000 {
		pause := time.Duration(i%7) * 100 * time.Millisecond
		c.at += pause
		c.offset += (pause + time.Millisecond) * 9 / 1000
		if c.ask(time.Duration(1+i%5) * time.Millisecond) {
			t.Fatalf("answer %d of a fast clock is a step", i)
		}
	}
	if c.ask(10 * time.Second) {
		t.Error("a slow answer is a step")
	}
	c.offset -= 3 * time.Second
	if !c.ask(time.Millisecond) {
		t.Error("a step of 3s behind a slow answer is not seen")
	}
	if !c.ask(time.Millisecond) {
		t.Error("a step is forgotten by itself")
	}
	c.Forget()
	if c.ask(time.Millisecond) {
		t.Error("after Forget the first answer is a step")
	}
	c.offset += 99 * time.Millisecond
	if c.ask(time.Millisecond) {
		t.Error("99ms are a step")
	}
	if c.offset += 50 * time.Millisecond; !c.ask(time.Millisecond) {
		t.Error("149ms in two steps are none")
	}
	if c.Stepped("another run", 0, 0, 0, 0) {
		t.Error("another run's clock is compared")
	}
}

// TestClockThatRunsTooFast: no answer misses the one before by more than the tolerance, but
// together they do.
func TestClockThatRunsTooFast(t *testing.T) {
	for _, percent := range []time.Duration{8, 2, -2} {
		c := &asked{at: time.Second}
		seen := time.Duration(0)
		for c.ask(time.Millisecond); seen == 0 && c.at < time.Minute; {
			c.at += time.Second
			c.offset += time.Second * percent / 100
			if c.ask(time.Millisecond) {
				seen = c.at
			}
		}
		if limit := 15 * time.Second; seen == 0 || seen > limit {
			t.Errorf("%d%% off: seen after %v, want %v", percent, seen, limit)
		}
	}
	// A small step that was within the tolerance does not count for ever.
	c := &asked{at: time.Second}
	c.ask(time.Millisecond)
	for i := range 10 {
		c.at += 10 * time.Second
		c.offset += 90 * time.Millisecond
		if c.ask(time.Millisecond) {
			t.Errorf("step %d of 90ms in 10s is seen", i)
		}
	}
}

// A machine that was suspended does not take a clock for one that stepped.
func TestClockAcrossSuspend(t *testing.T) {
	c := &asked{at: time.Second}
	c.ask(time.Millisecond)
	c.offset += time.Hour
	c.suspended += time.Hour
	if c.ask(time.Millisecond) {
		t.Error("a suspend is a step")
	}
	c.offset += time.Second
	if !c.ask(time.Millisecond) {
		t.Error("a step after a suspend is not seen")
	}
}

// Another run of a master has the same clock.
func TestClockFollows(t *testing.T) {
	c := &asked{at: time.Second}
	c.Follow("run")
	if c.ask(time.Millisecond) {
		t.Error("the first answer is a step")
	}
	c.runID = "before"
	c.Follow("run")
	if c.offset += time.Hour; !c.ask(time.Millisecond) {
		t.Error("a clock that was set while the machine was off is not seen")
	}
}
