package model

import (
	"hash/maphash"
	"maps"
	"os"
	"testing"
)

// TestEveryOrderOfMessages searches every order of messages and time, on three masters whose
// counters start equal or different. With all rules no fault exists; without a rule the search
// finds the fault.
func TestEveryOrderOfMessages(t *testing.T) {
	for _, e := range explored {
		t.Run(e.subject, func(t *testing.T) {
			t.Parallel()
			for _, c := range e.cases {
				t.Run(c.name, func(t *testing.T) {
					if c.long && !thorough() {
						t.Skip("takes long: MODEL_ALL is not set")
					}
					states, found := c.explore(c.run(c.broken))
					t.Logf("%d states: %s", states, found)
					if (found != "") != (c.finds != "") {
						t.Errorf("found %q, want %q", found, c.finds)
					}
				})
			}
		})
	}
}

// thorough reports whether the searches that take long are asked for. seeds.sh does.
func thorough() bool { return os.Getenv("MODEL_ALL") != "" }

// explore searches from each start. The second key starts with the counters of the first, shifted
// by one master.
func (c *situation) explore(r *run) (states int, found string) {
	starts := c.starts
	if starts == nil {
		starts = apart[:1]
	}
	for i := 0; i < len(starts) && found == ""; i++ {
		s := state{events: c.events}
		s.drops = all
		for m, n := range starts[i] {
			s.masters[m].counter = [maxKeys]uint8{n, starts[i][(m+1)%r.n]}
		}
		var n int
		n, found = r.search(&s, c.finds)
		states += n
	}
	return states, found
}

// TestTidy compares searches with and without the reductions: both must reach the
// same masters and the same holders.
func TestTidy(t *testing.T) {
	for _, e := range explored {
		for _, c := range e.cases {
			if c.finds != "" || c.losses > 1 || len(c.roles) > 2 || c.timed && !(c.broken.unfenced && thorough()) {
				continue // takes long
			}
			t.Run(e.subject+", "+c.name, func(t *testing.T) {
				c.starts = nil
				var met [2]map[uint64]bool
				for i := range met {
					met[i] = make(map[uint64]bool)
					r := c.run(c.broken)
					r.untidy = i == 0
					r.met = func(s *state) { met[i][r.seen(s)] = true }
					states, _ := c.explore(r)
					t.Logf("%d states, %d of them differ for users", states, len(met[i]))
				}
				if !maps.Equal(met[0], met[1]) {
					t.Error("differ")
				}
			})
		}
	}
}

// seen summarizes a state: masters without their messages, phases of attempts, and fences.
func (r *run) seen(s *state) (sum uint64) {
	for m := range r.n {
		at := s.masters[m]
		at.to = [maxAttempts]link{}
		sum += maphash.Comparable(seeds[0], at)
	}
	for a, who := range s.attempts {
		sum += maphash.Comparable(seeds[1], [...]uint8{uint8(a), uint8(max(who.phase, asking)), who.age})
	}
	return sum + maphash.Comparable(seeds[1], s.given)
}
