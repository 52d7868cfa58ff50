package values

import (
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
)

// Faults: how a run can break a promise.
const (
	beside  = "own the key"
	early   = "ends early"
	lingers = "outlives its time"
	revived = "was revived by"
	denied  = "is denied"
)

// fault notes which secrets a majority has, and returns the fault of a step if its text contains
// finds.
func (r *run) fault(s *state, what event, finds string) string {
	for i := range r.roles {
		c := &s.calls[i]
		if r.roles[i].kind != take || c.secret == 0 {
			continue
		}
		has := s.holders(c.secret) >= r.majority()
		c.gone = c.gone || c.whole && !has
		c.whole = c.whole || has
	}
	for _, look := range [...]func(*state, event) string{r.beside, r.early, r.lingers, r.revived, r.denied} {
		if fault := look(s, what); fault != "" && strings.Contains(fault, finds) {
			return fault
		}
	}
	return ""
}

// owns reports whether a client counts on the lock because of a call.
func (c *call) owns() bool { return c.phase == won && c.until > 0 && !c.void }

// beside finds two owners.
func (r *run) beside(s *state, _ event) string {
	for i := range r.roles {
		for j := range i {
			if a, b := &s.calls[i], &s.calls[j]; a.owns() && b.owns() && a.secret != b.secret {
				return fmt.Sprintf("%c and %c %s", 'A'+j, 'A'+i, beside)
			}
		}
	}
	return ""
}

// early finds a promise that no majority keeps to its end.
func (r *run) early(s *state, _ event) string {
	for i := range r.roles {
		if c := &s.calls[i]; c.owns() && !r.loses && s.keep(c.secret, c.until) < r.majority() {
			return fmt.Sprintf("the promise of %c %s", 'A'+i, early)
		}
	}
	return ""
}

// lingers finds a lock that a majority has for longer than its last refresh asked for.
func (r *run) lingers(s *state, _ event) string {
	for i, role := range r.roles {
		if c := &s.calls[i]; role.kind == refresh && c.phase == won && c.clear && r.prompt &&
			s.keep(c.secret, c.letGo+1) >= r.majority() {
			return fmt.Sprintf("what %c refreshed %s", 'A'+i, lingers)
		}
	}
	return ""
}

// revived finds a refresh of a lock that no majority had at some time since it was taken.
func (r *run) revived(s *state, what event) string {
	if c := &s.calls[what.i]; what.name == "win" && r.roles[what.i].kind == refresh && c.late && !c.void &&
		r.prompt && !r.loses {
		return fmt.Sprintf("%c %s %c", 'A'+c.secret-1, revived, 'A'+what.i)
	}
	return ""
}

// denied finds an answer "not held" to a call whose value holds the lock all the time.
func (r *run) denied(s *state, what event) string {
	if what.name != "not held" {
		return ""
	}
	for i := range r.roles {
		if c := &s.calls[i]; c.owns() && s.calls[what.i].before>>i&1 == 1 && !r.loses &&
			r.roles[i].value == r.roles[what.i].value {
			return fmt.Sprintf("%c %s what %c holds", 'A'+what.i, denied, 'A'+i)
		}
	}
	return ""
}

var seeds = [...]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}

// pack returns a key for a state. It sorts the masters, because they are alike.
func (r *run) pack(s *state) [len(seeds)]uint64 {
	var parts [maxMasters + 1]uint64
	for m := range r.n {
		parts[m] = maphash.Comparable(seeds[0], s.masters[m])
	}
	slices.Sort(parts[:r.n])
	rest := struct {
		calls         [maxCalls]call
		losses, ticks uint8
	}{s.calls, s.losses, s.ticks}
	parts[maxMasters] = maphash.Comparable(seeds[0], rest)
	return [...]uint64{maphash.Comparable(seeds[0], parts), maphash.Comparable(seeds[1], parts)}
}

// tidy clears values that no later step reads, so that fewer states differ.
func (r *run) tidy(s *state) {
	for i := range r.roles {
		c := &s.calls[i]
		for m := range r.n {
			l := &s.masters[m].to[i]
			if c.phase != finding {
				l.seen = 0
			}
			if c.phase >= won && !r.tooLate {
				l.said = silent
			}
			if l.said != longer {
				l.end = end{}
			}
			if s.masters[m].secret == 0 {
				s.masters[m].end = end{}
			}
		}
		if c.until == 0 && c.phase >= won {
			c.void = false
		}
	}
}

// search visits every state that can follow from s.
func (r *run) search(s *state, finds string) (states int, found string) {
	seen := make(map[[len(seeds)]uint64]struct{}, 1<<16)
	var path []event
	var room []*state // one for each step of the path
	var visit func(s *state) bool
	visit = func(s *state) bool {
		r.tidy(s)
		p := r.pack(s)
		if _, ok := seen[p]; ok {
			return true
		}
		seen[p] = struct{}{}
		if len(path) == len(room) {
			room = append(room, new(state))
		}
		x := successors{run: r, s: s, next: room[len(path)]}
		x.visit = func(next *state, what event) bool {
			path = append(path, what)
			if found = r.fault(next, what, finds); found != "" {
				found = fmt.Sprintf("%s: %v", found, path)
				return false
			}
			ok := visit(next)
			path = path[:len(path)-1]
			return ok
		}
		x.steps()
		return !x.stopped
	}
	visit(s)
	return len(seen), found
}

// seldom divides the weight of a step in random runs.
var seldom = map[string]int{"fail": 16, "give up": 16, "tick": 4, "forget": 8, "begin": 2}

// walk takes one random run from s to its end. In half of the runs half of the links are slow.
func (r *run) walk(s state, finds string, pick func(n int) int) string {
	const often = 64
	slow := pick(2) * pick(1<<(maxCalls*maxMasters))
	var path []event
	var chosen state
	var what event
	total := 0
	x := successors{run: r, s: &s, next: new(state)}
	x.visit = func(next *state, e event) bool {
		weight := often / max(seldom[e.name], 1)
		if slow>>(e.i*maxMasters+e.m)&1 == 1 && slices.Contains(opNames[:], e.name) {
			weight /= 8
		}
		if total += weight; pick(total) < weight {
			chosen, what = *next, e
		}
		return true
	}
	for range 200 {
		total = 0
		if x.steps(); total == 0 {
			return ""
		}
		path = append(path, what)
		if fault := r.fault(&chosen, what, finds); fault != "" {
			return fmt.Sprintf("%s: %v", fault, path)
		}
		s = chosen
	}
	return ""
}
