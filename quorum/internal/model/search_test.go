package model

import (
	"fmt"
	"hash/maphash"
	"slices"
)

var seeds = [...]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}

// pack returns a key for a state. It sorts the masters, because they are alike. Two states with
// one key are less likely than an error of this machine's memory.
func (r *run) pack(s *state) [len(seeds)]uint64 {
	var parts [maxMasters + 1]uint64
	for m := range r.n {
		parts[m] = maphash.Comparable(seeds[0], s.masters[m])
	}
	slices.Sort(parts[:r.n])
	rest := struct {
		attempts [maxAttempts]attempt
		given    [limited + 1][maxKeys]uint8
		slots    [maxSlots]uint8
		events   events
	}{s.attempts, s.given, s.slots, s.events}
	parts[maxMasters] = maphash.Comparable(seeds[0], rest)
	return [...]uint64{maphash.Comparable(seeds[0], parts), maphash.Comparable(seeds[1], parts)}
}

// tidy clears values that no later step reads, so that fewer states differ.
func (r *run) tidy(s *state) {
	for a := range r.roles {
		who, late := &s.attempts[a], false
		for m := range r.n {
			at := &s.masters[m]
			to := &at.to[a]
			if to.raise != unsent {
				to.got = min(to.got, 1)
			}
			switch who.phase {
			case holding, keeping, closed, expired:
				to.raise = min(to.raise, sent)
			case over:
				to.raise = unsent
				late = late || to.carries(raise, fill, share)
				present := r.oneToken
				r.own(at, a, func(*key, *place) { present = true })
				if !present && !to.carries(acquire, acquireSecond, raise, fill) {
					*to = link{} // its release would change no key
				}
			}
		}
		if who.phase == over && !late {
			*who = attempt{phase: over}
		}
	}
}

// carries reports whether one of these messages is under way.
func (l *link) carries(ops ...op) bool {
	for _, q := range l.lanes {
		for i := 0; i < laneLength && q[i] != none; i++ {
			if slices.Contains(ops, q[i].kind()) {
				return true
			}
		}
	}
	return false
}

// search visits every state that can follow from s.
func (r *run) search(s *state, finds string) (states int, found string) {
	seen := make(map[[len(seeds)]uint64]struct{}, 1<<16)
	var path []event
	var room []*state // one for each step of the path
	var visit func(s *state) bool
	visit = func(s *state) bool {
		if !r.untidy {
			r.tidy(s)
		}
		p := r.pack(s)
		if _, ok := seen[p]; ok {
			return true
		}
		if seen[p] = struct{}{}; r.met != nil {
			r.met(s)
		}
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
var seldom = map[string]int{
	"fail": 16, "drop": 8, "lose memory": 8, "release again": 8, "fill": 8, "tick": 4, "UNLOCK": 2,
}

// walk takes one random run from s to its end. In half of the runs half of the links are slow.
func (r *run) walk(s state, finds string, pick func(n int) int) string {
	const often = 64
	slow := pick(2) * pick(1<<(maxAttempts*maxMasters))
	var path []event
	var chosen state
	var what event
	total := 0
	x := successors{run: r, s: &s, next: new(state)}
	x.visit = func(next *state, e event) bool {
		weight := often / max(seldom[e.name], 1)
		if slow>>(e.a*maxMasters+e.m)&1 == 1 && slices.Contains(opNames[:], e.name) {
			weight /= 8
		}
		if total += weight; pick(total) < weight {
			chosen, what = *next, e
		}
		return true
	}
	for range 300 {
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
