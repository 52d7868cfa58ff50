package quorum

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// TestLatenessLogged: a proxy that is late all the time fills no log, and a long stop is not hidden
// by a short one just before.
func TestLatenessLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zap.WarnLevel)
		l := lateness{log: zap.New(core)}
		for _, ms := range []time.Duration{49, 60, 60, 100, 2000, 3000, 100} {
			time.Sleep(time.Second)
			l.note(ms * time.Millisecond)
		}
		time.Sleep(10 * time.Second)
		l.note(60 * time.Millisecond)
		var got []time.Duration
		for _, e := range logs.All() {
			got = append(got, e.ContextMap()["late_by"].(time.Duration)/time.Millisecond)
		}
		if want := []time.Duration{60, 2000, 60}; !slices.Equal(got, want) {
			t.Errorf("logged %v, want %v", got, want)
		}
	})
}
