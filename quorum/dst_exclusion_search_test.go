package quorum

import (
	"fmt"
	"slices"
)

// shared reports whether two count on the lock.
func (s *xState) shared() bool {
	n := 0
	for _, at := range s.attempts {
		if at.phase == xHolding {
			n++
		}
	}
	return n > 1
}

// pack is what makes a difference in s, with its masters sorted: which is which makes none.
func (r *exclusionRun) pack(s *xState) (p [xMasters + 1]uint64) {
	for m := range s.masters {
		at := &s.masters[m]
		b := uint64(at.holder)<<4 | uint64(at.left)<<2 | uint64(at.kind)
		for _, seen := range at.seen {
			b = b<<5 | r.packSeen(at, seen)
		}
		for a, to := range at.to {
			b = b<<4 | r.packMessages(at, to, s.attempts[a].phase)
		}
		p[m] = b
	}
	slices.Sort(p[:xMasters])
	rest := uint64(s.losses)<<4 | uint64(s.repeats)
	for _, at := range s.attempts {
		rest = rest<<4 | uint64(at.phase)<<2 | uint64(at.age)
	}
	p[xMasters] = rest
	return p
}

// packSeen: what a proxy knows makes a difference as long as it is so; without recount it goes on
// counting, and without compare it goes on asking.
func (r *exclusionRun) packSeen(at *xMaster, seen xSeen) uint64 {
	b := uint64(0)
	if seen.kind == at.kind && seen.nonce == at.nonce {
		b = 16 | uint64(seen.age)
	}
	if !r.recount {
		b |= uint64(seen.age)
	}
	if !r.compare {
		b |= uint64(seen.kind) << 2
	}
	return b
}

// packMessages: a SET under another record does nothing, and nothing is left of an attempt whose
// release has come.
func (r *exclusionRun) packMessages(at *xMaster, to xMessages, phase uint8) uint64 {
	b := uint64(0)
	if to.set == 1 && (!r.compare || at.kind == xVotes && at.nonce == to.record) {
		b = 1
	}
	if to.got && phase != xOver {
		b = 2
	}
	if to.del != 3 {
		b |= uint64(to.del) << 2
	}
	return b
}

// search goes through every state that can follow from s.
func (r *exclusionRun) search(s xState) (states int, found string) {
	seen := make(map[[xMasters + 1]uint64]struct{}, 1<<20)
	var path []string
	var visit func(s xState) bool
	visit = func(s xState) bool {
		if s.shared() {
			found = fmt.Sprint(path)
			return false
		}
		p := r.pack(&s)
		if _, ok := seen[p]; ok {
			return true
		}
		seen[p] = struct{}{}
		return r.steps(s, func(next xState, what string, i, m int) bool {
			path = append(path, fmt.Sprintf("%s(%d,%d)", what, i, m))
			ok := visit(next)
			path = path[:len(path)-1]
			return ok
		})
	}
	visit(s)
	return len(seen), found
}
