package admission

import (
	"testing"
	"time"
)

// TestStormOfFour: of four masters two suffice to learn of a mark, because a majority needs one
// of them.
func TestStormOfFour(t *testing.T) {
	from, n := seeds(250)
	for seed := from; seed < from+n; seed++ {
		if w := runStormOf(4, seed, "", true); w.wrong != "" {
			t.Errorf("seed %d: %s", seed, w.wrong)
		}
	}
}

// TestFourWithOneAway: N - majority + 1 others can learn of the mark, and a majority has counters.
func TestFourWithOneAway(t *testing.T) {
	s := newStory(t, 4)
	p := s.begin()
	s.settle(2 * time.Second)
	s.masters[3].down = true
	s.settle(time.Second)
	p.lanes[0].stepped = true
	s.settle(wait + 10*time.Second)
	s.want(p, "stepped its clock", "vvvd")
}
