package compare

import (
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// A second client that is granted the lock while the first may still count on it. Three masters,
// two of which forget.

// overlapTTL is the ttl of these locks, and the max-ttl of the proxies.
var overlapTTL = map[bool]time.Duration{false: 5 * time.Second, true: 10 * time.Second}[lab.Race]

// overlapAfter lets the first client lock, brings the fault about, and lets the second try until
// it is granted the lock.
func overlapAfter(t *testing.T, s subject, f *field, fault func()) tally {
	t.Helper()
	clients := begin(t, s, f, 1)
	lab.Pass(t, 1500*time.Millisecond) // a deployment that has been up for a while: all has been looked at once
	first, ok := lockBy(clients[0], "job", overlapTTL, time.Now().Add(lab.Patience))
	if !ok {
		t.Fatalf("%s cannot lock without any fault", s.name)
	}
	lab.WantHolders(t, f.masters, "job", len(f.masters)) // or what comes after the fault is not forgotten
	fault()
	if left := time.Until(first.until); left < overlapTTL/4 {
		t.Fatalf("%v are left of a lock for %v: the fault took too long to tell anything", left, overlapTTL)
	}
	second, ok := lockBy(clients[1], "job", overlapTTL, first.until.Add(overlapTTL+lab.Patience))
	if !ok {
		t.Fatalf("%s never grants the lock again", s.name)
	}
	early := first.until.Sub(second.back)
	t.Logf("%s: granted to another %v before the first lock was over", s.name, early)
	if early > 0 {
		return tally{bad: 1, tries: 1}
	}
	return tally{tries: 1}
}

func overlapAfterRestarts(t *testing.T, s subject, _ size) tally {
	f := plain(t, 3, overlapTTL)
	return overlapAfter(t, s, f, func() {
		for _, m := range f.masters[:2] {
			m.RestartEmpty(t)
		}
	})
}

func overlapAfterFlush(t *testing.T, s subject, _ size) tally {
	f := plain(t, 3, overlapTTL)
	return overlapAfter(t, s, f, func() {
		for _, m := range f.masters[:2] {
			m.Must(t, "FLUSHALL")
		}
	})
}

func overlapAfterClockStep(t *testing.T, s subject, _ size) tally {
	f := clocked(t, 3, overlapTTL)
	return overlapAfter(t, s, f, func() {
		for _, clock := range f.clocks[:2] {
			clock.Step(2 * overlapTTL)
		}
	})
}
