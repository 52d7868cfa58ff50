package compare

import (
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// A second client gets the lock while the first may still rely on it. Two of three masters lose
// their memory.

// overlapTTL is the ttl of these locks, and the max-ttl of the proxies.
var overlapTTL = map[bool]time.Duration{false: 5 * time.Second, true: 10 * time.Second}[lab.Race]

// overlapAfter lets the first client lock, causes the fault, and lets the second try until it
// gets the lock.
func overlapAfter(t *testing.T, s subject, f *field, fault func()) tally {
	t.Helper()
	clients := begin(t, s, f, 1)
	lab.Pass(t, 1500*time.Millisecond) // long enough for the proxies to have examined all masters
	first, ok := lockBy(clients[0], "job", overlapTTL, time.Now().Add(lab.Patience))
	if !ok {
		t.Fatalf("%s: got no lock without a fault", s.name)
	}
	lab.WantHolders(t, f.masters, "job", len(f.masters)) // otherwise a late grant would not be forgotten
	fault()
	if left := time.Until(first.until); left < overlapTTL/4 {
		t.Fatalf("%v left of a lock for %v: the fault took too long for a verdict", left, overlapTTL)
	}
	second, ok := lockBy(clients[1], "job", overlapTTL, first.until.Add(overlapTTL+lab.Patience))
	if !ok {
		t.Fatalf("%s: got no second lock", s.name)
	}
	early := first.until.Sub(second.back)
	t.Logf("%s: granted again %v before the end of the first lock", s.name, early)
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
