package model

import (
	"fmt"
	"strings"
)

// Faults: how a run can break a promise.

const (
	beside   = "holds beside"
	tooMany  = "more than the limit"
	falls    = "given out after"
	lingers  = "nobody lives so long in"
	partly   = "has a part of its keys"
	deadlock = "wait for each other"
	undead   = "is extended after KEEP"
	revived  = "is extended after a later token"
)

// fault returns the fault of a step if its text contains finds.
func (r *run) fault(next *state, what event, finds string) string {
	if fault := r.given(next, what); fault != "" && strings.Contains(fault, finds) {
		return fault
	}
	for _, look := range [...]func(*state) string{r.beside, r.undead, r.revived, r.lingers, r.part, r.stuck} {
		if fault := look(next); fault != "" && strings.Contains(fault, finds) {
			return fault
		}
	}
	return ""
}

// given records the fence of a new holder. It must exceed earlier ones: an exclusive lock's all
// fences of its keys, another lock's those of other kinds and of its own slot.
func (r *run) given(s *state, what event) (fault string) {
	if what.name != "win" || r.unfenced {
		return ""
	}
	fence := s.attempts[what.a].fence
	after := func(last uint8) {
		if fence <= last {
			fault = fmt.Sprintf("%d %s %d to %c", fence, falls, last, 'A'+what.a)
		}
	}
	mode := r.roles[what.a].mode
	if slot := &s.slots[s.attempts[what.a].slot]; mode == limited && !r.counters {
		after(*slot)
		*slot = fence
	}
	r.each(what.a, func(key int) {
		for kind := range s.given {
			if mode == exclusive || kind != int(mode) {
				after(s.given[kind][key])
			}
		}
		s.given[mode][key] = max(s.given[mode][key], fence)
	})
	return fault
}

// beside finds holders that exclude each other.
func (r *run) beside(s *state) string {
	for a, role := range r.roles {
		if !s.counts(a) {
			continue
		}
		n := uint8(0)
		for b, other := range r.roles {
			if !s.counts(b) || role.keys&other.keys == 0 {
				continue
			}
			if r.mode(s, a) == limited && r.mode(s, b) == limited && s.attempts[b].slot < role.limit {
				n++
			}
			if a != b && !r.mayHoldBoth(s, a, b) {
				return fmt.Sprintf("%c %s %c", 'A'+a, beside, 'A'+b)
			}
		}
		if role.mode == limited && n > role.limit {
			return fmt.Sprintf("%d are %s of %c", n, tooMany, 'A'+a)
		}
	}
	return ""
}

// mayHoldBoth reports whether a and b may hold a key at the same time.
func (r *run) mayHoldBoth(s *state, a, b int) bool {
	if r.mode(s, a) != r.mode(s, b) {
		return false
	}
	switch r.mode(s, a) {
	case shared:
		return true
	case limited:
		return r.counters || s.attempts[a].slot != s.attempts[b].slot
	}
	return false
}

// undead finds an EXTEND that succeeded after KEEP.
func (r *run) undead(s *state) string {
	for a := range r.roles {
		if s.attempts[a].undead {
			return fmt.Sprintf("%c %s", 'A'+a, undead)
		}
	}
	return ""
}

// superseded reports whether a token was given out that is later than that of a and excludes it.
func (r *run) superseded(s *state, a int) bool {
	who, mode := s.attempts[a], r.mode(s, a)
	later := mode == limited && !r.counters && s.slots[who.slot] > who.fence
	r.each(a, func(key int) {
		for kind := range s.given {
			if kind != int(mode) || mode == exclusive {
				later = later || s.given[kind][key] > who.fence
			}
		}
	})
	return later && !r.unfenced
}

// revived finds an EXTEND that succeeded after a later token was given out.
func (r *run) revived(s *state) string {
	for a := range r.roles {
		if s.attempts[a].late {
			return fmt.Sprintf("%c %s", 'A'+a, revived)
		}
	}
	return ""
}

// lingers finds a key that outlives its last holder.
func (r *run) lingers(s *state) string {
	for m := range r.n {
		for key := range maxKeys {
			if k := &s.masters[m].keys[key]; k.left > k.longest() {
				return fmt.Sprintf("%s key %d of master %d", lingers, key, m)
			}
		}
	}
	return ""
}

// part finds a master that granted one of two keys.
func (r *run) part(s *state) string {
	for a, role := range r.roles {
		if phase := s.attempts[a].phase; role.keys != 3 || phase != asking && phase != raising {
			continue
		}
		for m := range r.n {
			p, q := s.masters[m].keys[0].places[a], s.masters[m].keys[1].places[a]
			if p.left != q.left && s.masters[m].to[a].lanes[0][0] != acquireSecond {
				return fmt.Sprintf("%c %s at master %d", 'A'+a, partly, m)
			}
		}
	}
	return ""
}

// stuck finds two attempts at both keys that all masters have answered, and neither can win.
func (r *run) stuck(s *state) string {
	if len(r.roles) != 2 || r.roles[0].keys&r.roles[1].keys != 3 {
		return ""
	}
	for a := range r.roles {
		granted := 0
		for m := range r.n {
			link := &s.masters[m].to[a]
			if link.lanes[0][0] != none || s.masters[m].record != votes || link.got == 0 {
				return ""
			}
			if r.granted(s, a, m, 0) {
				granted++
			}
		}
		if s.attempts[a].phase != asking || granted >= r.majority() {
			return ""
		}
	}
	return "A and B " + deadlock
}
