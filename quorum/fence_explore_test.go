package quorum

import (
	"fmt"
	"math/bits"
	"slices"
)

// wrong says what is wrong with a win of a in the state before it.
func (r *modelRun) wrong(before *model, a int) string {
	fence := before.acquirers[a].fence
	if fence <= before.last {
		return fmt.Sprintf("%d given out after %d", fence, before.last)
	}
	for b := range r.acquirers {
		if b != a && before.acquirers[b].phase == mHolding {
			return fmt.Sprintf("%c holds the lock already", 'A'+b)
		}
	}
	return ""
}

// packed is a state as a key, with its masters sorted: which is which makes no difference.
type packed struct {
	masters [maxModelMasters]uint64
	rest    uint64
}

func (r *modelRun) pack(s *model) (p packed) {
	for m := range r.n {
		at := &s.masters[m]
		b := uint64(at.counter)<<3 | uint64(at.holder)<<1
		if at.quarantined {
			b |= 1
		}
		for a := range r.acquirers {
			got := uint64(min(at.got[a], 15))
			b = b<<7 | got<<3 | uint64(at.raise[a])<<1
			if at.fill[a] {
				b |= 1
			}
		}
		p.masters[m] = b
	}
	slices.Sort(p.masters[:r.n])
	p.rest = uint64(s.last)<<12 | uint64(s.fills)<<9 | uint64(s.losses)<<6 | uint64(s.copied)<<1
	if s.read {
		p.rest |= 1
	}
	for a := range r.acquirers {
		who := s.acquirers[a]
		p.rest = p.rest<<8 | uint64(who.phase)<<5 | uint64(who.fence)<<1
		if who.old {
			p.rest |= 1
		}
	}
	return p
}

// searched is the outcome of a search.
type searched struct {
	states int
	found  string // a run that goes wrong; empty without one
}

// exhaust goes through every run from s.
func (r *modelRun) exhaust(s model) (out searched) {
	seen := make(map[packed]struct{}, 1<<16)
	var path []modelEvent
	var visit func(s model)
	visit = func(s model) {
		p := r.pack(&s)
		if _, ok := seen[p]; ok {
			return
		}
		seen[p] = struct{}{}
		r.steps(s, func(next model, what modelEvent) bool {
			path = append(path, what)
			if fault := r.given(&s, &next, what); fault != "" {
				out.found = fmt.Sprintf("%s: %v", fault, path)
				return false
			}
			visit(next)
			path = path[:len(path)-1]
			return out.found == ""
		})
	}
	visit(s)
	out.states = len(seen)
	return out
}

// given notes a number that has just been given out.
func (r *modelRun) given(before, after *model, what modelEvent) (fault string) {
	if what.name != "win" {
		return ""
	}
	fault = r.wrong(before, what.acquirer)
	after.last = before.acquirers[what.acquirer].fence
	return fault
}

// walk takes one random run from s to its end: pick chooses among n steps.
func (r *modelRun) walk(s model, pick func(n int) int) (fault string) {
	var nexts []model
	var events []modelEvent
	var path []modelEvent
	for range 200 {
		nexts, events = nexts[:0], events[:0]
		r.steps(s, func(next model, what modelEvent) bool {
			// Giving up is always possible; seldom enough that something else happens.
			if what.name != "fail" || bits.OnesCount(uint(pick(16))) == 0 {
				nexts, events = append(nexts, next), append(events, what)
			}
			return true
		})
		if len(nexts) == 0 {
			return ""
		}
		i := pick(len(nexts))
		path = append(path, events[i])
		if fault := r.given(&s, &nexts[i], events[i]); fault != "" {
			return fmt.Sprintf("%s: %v", fault, path)
		}
		s = nexts[i]
	}
	return ""
}
