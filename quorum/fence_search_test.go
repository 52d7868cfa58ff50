package quorum

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// startingAt is the state in which nothing has happened, with these counters.
func startingAt(fills, losses uint8, counters ...uint8) (s model) {
	for m, n := range counters {
		s.masters[m].counter = n
	}
	s.fills, s.losses = fills, losses
	return s
}

// apart is every way, but for the order, in which three counters may start at these values.
func apart(values ...uint8) (all [][]uint8) {
	for i, a := range values {
		for j, b := range values[i:] {
			for _, c := range values[i+j:] {
				all = append(all, []uint8{a, b, c})
			}
		}
	}
	return all
}

// schemes is ours, and the simpler ones that are not enough, as locks have tried them.
var schemes = []struct {
	name string
	scheme
	five   bool // goes wrong only with five masters
	losses uint8
	wrong  bool
}{
	{name: "ours", scheme: ours},
	{name: "ours, with a master that rejoins", scheme: ours, losses: 1},
	{name: "largest of a quorum, not written back", scheme: scheme{ofAll: true, level: true}, wrong: true},
	{name: "written back to any majority", scheme: scheme{writeBack: true, ofAll: true, level: true}, wrong: true},
	{name: "rejoins with its counter lost", scheme: scheme{writeBack: true, compare: true, ofAll: true}, losses: 1, wrong: true},
	{name: "counters read before the quarantine is over", scheme: scheme{writeBack: true, compare: true, ofAll: true, level: true, early: true}, losses: 1, wrong: true},
	{name: "confirmed by a majority of those who granted", scheme: scheme{writeBack: true, compare: true, level: true}, five: true, wrong: true},
}

// Numbers rise in every interleaving of two acquirers on three masters, and a simpler scheme is
// found out.
func TestFenceModelOfThree(t *testing.T) {
	for _, c := range schemes {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := &modelRun{scheme: c.scheme, n: 3, acquirers: 2}
			states, began, found := 0, time.Now(), ""
			starts, fills := apart(0, 1, 3), uint8(1)
			if c.losses > 0 {
				starts, fills = apart(0, 2), 0 // both would take minutes; with five masters there are both
			}
			for _, start := range starts {
				out := r.exhaust(startingAt(fills, c.losses, start...))
				states += out.states
				if out.found != "" {
					found = fmt.Sprintf("counters %v: %s", start, out.found)
					break
				}
			}
			t.Logf("%d states in %v: %s", states, time.Since(began).Round(time.Millisecond), found)
			if wrong := c.wrong && !c.five; (found != "") != wrong {
				t.Errorf("goes wrong: %v, want %v", found != "", wrong)
			}
		})
	}
}

// Three acquirers on three masters.
func TestFenceModelOfThreeByThree(t *testing.T) {
	for _, c := range schemes {
		if c.losses > 0 || c.five {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := &modelRun{scheme: c.scheme, n: 3, acquirers: 3}
			began := time.Now()
			out := r.exhaust(startingAt(0, 0, 0, 0, 0))
			t.Logf("%d states in %v: %s", out.states, time.Since(began).Round(time.Millisecond), out.found)
			if (out.found != "") != c.wrong {
				t.Errorf("goes wrong: %v, want %v", out.found != "", c.wrong)
			}
		})
	}
}

// Five masters are too many for all runs: random ones, with two and three acquirers. Each scheme
// that goes wrong with three does so with five, and one more.
func TestFenceModelOfFive(t *testing.T) {
	for _, c := range schemes {
		for _, acquirers := range []int{2, 3} {
			t.Run(fmt.Sprintf("%s/%d", c.name, acquirers), func(t *testing.T) {
				t.Parallel()
				r := &modelRun{scheme: c.scheme, n: 5, acquirers: acquirers}
				random := rand.New(rand.NewPCG(1, uint64(acquirers)))
				walks, found := 0, ""
				limit := 10000
				if c.wrong {
					limit = 1000000
				}
				for ; walks < limit && found == ""; walks++ {
					var start [5]uint8
					for m := range start {
						start[m] = uint8(random.IntN(4))
					}
					found = r.walk(startingAt(uint8(random.IntN(3)), c.losses, start[:]...), random.IntN)
				}
				t.Logf("%d runs: %s", walks, found)
				if (found != "") != c.wrong {
					t.Errorf("goes wrong: %v, want %v: %s", found != "", c.wrong, found)
				}
			})
		}
	}
}
