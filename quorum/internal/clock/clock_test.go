package clock

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestClocksAgreeWhileAwake: the real clocks go forward together while the machine is awake.
func TestClocksAgreeWhileAwake(t *testing.T) {
	if before, after := Suspended(), Suspended(); before < 0 || after-before > time.Second {
		t.Errorf("suspended %v, then %v", before, after)
	}
}

func TestStopwatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Start()
		time.Sleep(time.Minute)
		if took := s.Elapsed(); took != time.Minute {
			t.Errorf("elapsed %v, want 1m", took)
		}
		s.slept -= time.Hour // as after a suspend of an hour
		if took := s.Elapsed(); took.Round(time.Second) != time.Hour+time.Minute {
			t.Errorf("elapsed %v, want 1h1m: a suspend counts", took)
		}
	})
}
