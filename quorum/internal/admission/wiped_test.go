package admission

import (
	"testing"
	"time"
)

// TestDurableMastersWipedBeforeAnotherStarts: all masters are emptied and taken for new by a proxy
// that starts. Their count of packets begins at the clock, above the lost count, and is no proof.
// The proxy that ran before contradicts.
func TestDurableMastersWipedBeforeAnotherStarts(t *testing.T) {
	s := newStory(t, 3)
	for _, m := range s.masters {
		m.durable = true
	}
	p := s.begin()
	s.settle(3 * time.Second)
	s.mustLock(p, wLife, 0, 1, 2)
	p.paused = true
	for _, m := range s.masters {
		m.flush()
	}
	q := s.start()
	for range 300 {
		if q.states() == "vvv" {
			break
		}
		q.turn()
		s.pass(20 * time.Millisecond)
	}
	p.paused = false
	s.settle(3 * time.Second)
	s.want(p, "after it looked", "qqq")
	s.want(q, "after the other looked", "qqq")
	if s.lock(q, time.Second, 0, 1, 2); s.wrong != "" {
		t.Error(s.wrong)
	}
}
