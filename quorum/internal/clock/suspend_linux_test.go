package clock

import (
	"testing"
	"time"
)

// A suspend counts for a Stopwatch until a later call has noticed it.
func TestSuspendNotNoticed(t *testing.T) {
	suspendedLast.Add(-int64(time.Hour)) // as after a suspend of an hour
	first, second := Start(), Start()
	if took := first.Elapsed(); took < time.Hour {
		t.Errorf("elapsed %v, want an hour more", took)
	}
	if took := second.Elapsed(); took < time.Hour {
		t.Errorf("elapsed %v of one that was started before, want an hour more", took)
	}
	if took := Start().Elapsed(); took > time.Minute {
		t.Errorf("elapsed %v after it was noticed", took)
	}
}
