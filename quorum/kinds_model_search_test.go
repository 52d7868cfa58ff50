package quorum

import (
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
)

// What is wrong in the model of kinds, and the search for it.

const (
	kBeside   = "holds beside"
	kMore     = "more than the limit"
	kRises    = "given out after"
	kLingers  = "nobody lives so long in"
	kPart     = "has a part of its keys"
	kDeadlock = "wait for each other"
	kUndead   = "is extended after KEEP"
)

// beside looks at those who count on their locks.
func (r *kRun) beside(s *kState) string {
	for a, role := range r.roles {
		if !s.counts(a) {
			continue
		}
		n := uint8(0)
		for b, other := range r.roles {
			if !s.counts(b) || role.keys&other.keys == 0 {
				continue
			}
			slots := r.mode(s, a) == kLimited && r.mode(s, b) == kLimited
			if slots && s.attempts[b].slot < role.limit {
				n++
			}
			shared := r.mode(s, a) == kShared && r.mode(s, b) == kShared
			apart := slots && (r.counters || s.attempts[a].slot != s.attempts[b].slot)
			if a != b && !shared && !apart {
				return fmt.Sprintf("%c %s %c", 'A'+a, kBeside, 'A'+b)
			}
		}
		if role.mode == kLimited && n > role.limit {
			return fmt.Sprintf("%d are %s of %c", n, kMore, 'A'+a)
		}
	}
	return ""
}

// undead: EXTEND was told that it holds what was given up.
func (r *kRun) undead(s *kState) string {
	for a := range r.roles {
		if s.attempts[a].undead {
			return fmt.Sprintf("%c %s", 'A'+a, kUndead)
		}
	}
	return ""
}

// lingers: a key refuses others for nobody.
func (r *kRun) lingers(s *kState) string {
	for m := range r.n {
		for key := range kKeys {
			if k := &s.masters[m].keys[key]; k.left > k.longest() {
				return fmt.Sprintf("%s key %d of master %d", kLingers, key, m)
			}
		}
	}
	return ""
}

// part: who asks for several keys has all of them at a master, or none.
func (r *kRun) part(s *kState) string {
	for a, role := range r.roles {
		if phase := s.attempts[a].phase; role.keys != 3 || phase != kAsking && phase != kRaising {
			continue
		}
		for m := range r.n {
			p, q := s.masters[m].keys[0].places[a], s.masters[m].keys[1].places[a]
			if p.left != q.left && s.masters[m].to[a].lanes[0][0] != kAcquireSecond {
				return fmt.Sprintf("%c %s at master %d", 'A'+a, kPart, m)
			}
		}
	}
	return ""
}

// stuck: two ask for both keys, every master has answered both, and neither can get them.
func (r *kRun) stuck(s *kState) string {
	if len(r.roles) != 2 || r.roles[0].keys&r.roles[1].keys != 3 {
		return ""
	}
	for a := range r.roles {
		granted := 0
		for m := range r.n {
			link := &s.masters[m].to[a]
			if link.lanes[0][0] != kNo || s.masters[m].out > 0 || link.got == 0 {
				return ""
			}
			if r.granted(s, a, m, 0) {
				granted++
			}
		}
		if s.attempts[a].phase != kAsking || granted >= majority(r.n) {
			return ""
		}
	}
	return "A and B " + kDeadlock
}

// given notes a fence that has just been given out, and says whether it is too small: an exclusive
// one after all others of its keys, another after those of other kinds, and of its slot.
func (r *kRun) given(s *kState, what kEvent) (fault string) {
	if what.name != "win" {
		return ""
	}
	fence := s.attempts[what.a].fence
	after := func(last uint8) {
		if fence <= last {
			fault = fmt.Sprintf("%d %s %d to %c", fence, kRises, last, 'A'+what.a)
		}
	}
	mode := r.roles[what.a].mode
	if slot := &s.slots[s.attempts[what.a].slot]; mode == kLimited && !r.counters {
		after(*slot)
		*slot = fence
	}
	r.each(what.a, func(key int) {
		for kind := range s.given {
			if mode == kExclusive || kMode(kind) != mode {
				after(s.given[kind][key])
			}
		}
		s.given[mode][key] = max(s.given[mode][key], fence)
	})
	return fault
}

// fault is what goes wrong with a step, if it is what is looked for.
func (r *kRun) fault(next *kState, what kEvent, looked string) string {
	if fault := r.given(next, what); fault != "" && strings.Contains(fault, looked) {
		return fault
	}
	for _, look := range [...]func(*kState) string{r.beside, r.undead, r.lingers, r.part, r.stuck} {
		if fault := look(next); fault != "" && strings.Contains(fault, looked) {
			return fault
		}
	}
	return ""
}

var kSeed = maphash.MakeSeed()

// pack is a state as a key, with its masters sorted: which is which makes no difference. That two
// states have one key is less likely than that the memory of this machine errs.
func (r *kRun) pack(s *kState) (p [kMasters + 1]uint64) {
	for m := range r.n {
		p[m] = maphash.Comparable(kSeed, s.masters[m])
	}
	slices.Sort(p[:r.n])
	rest := *s
	rest.masters = [kMasters]kMaster{}
	p[kMasters] = maphash.Comparable(kSeed, rest)
	return p
}

// search goes through every state that can follow from s.
func (r *kRun) search(s kState, looked string) (states int, found string) {
	seen := make(map[[kMasters + 1]uint64]struct{}, 1<<16)
	var path []kEvent
	var visit func(s *kState) bool
	visit = func(s *kState) bool {
		p := r.pack(s)
		if _, ok := seen[p]; ok {
			return true
		}
		seen[p] = struct{}{}
		return r.steps(*s, func(next kState, what kEvent) bool {
			path = append(path, what)
			if found = r.fault(&next, what, looked); found != "" {
				found = fmt.Sprintf("%s: %v", found, path)
				return false
			}
			ok := visit(&next)
			path = path[:len(path)-1]
			return ok
		})
	}
	visit(&s)
	return len(seen), found
}

// kSeldom is how many times less often than others a step is taken in a random run.
var kSeldom = map[string]int{
	"fail": 16, "drop": 8, "lose memory": 8, "fill": 8, "tick": 4, "UNLOCK": 2,
}

// walk takes one random run from s to its end.
func (r *kRun) walk(s kState, looked string, pick func(n int) int) string {
	const often = 16
	var path []kEvent
	for range 300 {
		var chosen kState
		var event kEvent
		total := 0
		r.steps(s, func(next kState, what kEvent) bool {
			weight := often / max(kSeldom[what.name], 1)
			if total += weight; pick(total) < weight {
				chosen, event = next, what
			}
			return true
		})
		if total == 0 {
			return ""
		}
		path = append(path, event)
		if fault := r.fault(&chosen, event, looked); fault != "" {
			return fmt.Sprintf("%s: %v", fault, path)
		}
		s = chosen
	}
	return ""
}
