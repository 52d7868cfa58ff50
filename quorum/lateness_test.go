package quorum

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// TestLatenessLogged: a proxy that is late all the time fills no log, and a long stop is not
// hidden by a short one just before.
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

// lateness remembers how late this process was for some seconds, and logs it now and then.
func TestLatenessIsRememberedForSeconds(t *testing.T) {
	core, logs := observer.New(zap.WarnLevel)
	synctest.Test(t, func(t *testing.T) {
		l := lateness{log: zap.New(core)}
		for _, c := range []struct {
			after, by, recent, during time.Duration
			logged                    int
		}{
			{0, minLateness - 1, minLateness - 1, 0, 0},
			{time.Second, minLateness, minLateness, minLateness, 1},
			{time.Second, 2 * minLateness, 2 * minLateness, 2 * minLateness, 2},
			{time.Second, 0, 2 * minLateness, 2 * minLateness, 2},
			{1, 0, 2 * minLateness, 0, 2}, // over a second ago
			{4 * time.Second, 0, 0, 0, 2},
			{4 * time.Second, minLateness, minLateness, minLateness, 2},
		} {
			time.Sleep(c.after)
			l.note(c.by)
			if recent, during := l.recent(time.Now()), l.during(time.Second); recent != c.recent ||
				during != c.during || logs.Len() != c.logged {
				t.Errorf("late by %v: recently %v, within a second %v, logged %d times, want %+v", c.by, recent,
					during, logs.Len(), c)
			}
		}
	})
}
