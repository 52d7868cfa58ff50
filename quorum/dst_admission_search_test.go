package quorum

import (
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
)

// visit goes through all that can follow from s.
func (r *admissionRun) visit(s aState) {
	if r.found != "" || len(r.seen) >= r.limit {
		return
	}
	s.forget()
	key := r.key(&s)
	if _, ok := r.seen[key]; ok {
		return
	}
	r.seen[key] = struct{}{}
	if !s.undecided() {
		return
	}
	for m := range aMasters {
		for p := range aProxies {
			v, at := &s.views[p][m], &s.masters[m]
			if !v.up || v.record != at.record || v.born != at.born || v.stale && !v.changing || at.record.kind == recordVotes && v.votedAge > 0 || !v.fresh {
				next := s
				r.look(&next, p, m)
				r.then(next, "look", p, m, p >= aProxies-r.swift && next.landAll(p))
			}
			if v.sent {
				next := s
				wrong := next.land(p, m)
				r.then(next, "write "+"-ANQ"[v.change.to.kind:][:1], p, m, wrong)
			}
		}
		if s.flushes > 0 && s.masters[m].record.kind == recordVotes && s.count(recordVotes) >= majority(aMasters) {
			next := s
			next.flush(m)
			r.then(next, "flush", 0, m, false)
		}
	}
	// Where so many masters tell that the deployment is not new that one will be left, everybody finds out in a step of time.
	if s.count(recordVotes)+s.count(recordMark) <= int(s.flushes) {
		next := s
		r.pass(&next)
		r.then(next, "time", 0, 0, false)
	}
}

// aOrders are all orders of the masters.
var aOrders = [][aMasters]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}}

// key is the same for states that differ only in which master and which proxy is which.
func (r *admissionRun) key(s *aState) (least [2]uint64) {
	first := true
	for swap := range aProxies {
		if swap > 0 && r.swift == 1 {
			break // they differ
		}
		var look [aMasters]uint64
		for m := range look {
			look[m] = s.look(m, swap)
		}
		for _, order := range aOrders {
			if look[order[0]] > look[order[1]] || look[order[1]] > look[order[2]] {
				continue
			}
			other := aState{later: s.later, flushes: s.flushes}
			for p := range aProxies {
				from := (p + swap) % aProxies
				other.inhabited[p] = s.inhabited[from]
				for m, old := range order {
					other.views[p][m] = s.views[from][old].inOrder(order)
				}
			}
			for m, old := range order {
				other.masters[m] = s.masters[old]
				other.masters[m].born = s.masters[old].born.inOrder(order)
			}
			other.rename()
			key := [2]uint64{maphash.Comparable(r.seeds[0], other), maphash.Comparable(r.seeds[1], other)}
			if first || key[0] < least[0] || key[0] == least[0] && key[1] < least[1] {
				first, least = false, key
			}
		}
	}
	return least
}

// look is what master m looks like without its nonces, to put masters in order; swap says which proxy comes first.
func (s *aState) look(m, swap int) uint64 {
	at := &s.masters[m]
	b := uint64(at.record.kind)<<2 | uint64(at.danger)
	for p := range aProxies {
		v := &s.views[(p+swap)%aProxies][m]
		b = b<<4 | uint64(flag(v.up)|flag(v.changing)<<1|flag(v.stale)<<2|flag(v.fresh)<<3)
		b = b<<9 | uint64(v.record.kind)<<6 | uint64(v.change.from.kind)<<3 | uint64(v.change.to.kind)
		b = b<<4 | uint64(v.markAge)<<2 | uint64(v.votedAge)
	}
	return b
}

func flag(set bool) uint8 {
	if set {
		return 1
	}
	return 0
}

func (b aBorn) inOrder(order [aMasters]int) (other aBorn) {
	for m, old := range order {
		other[m] = b[old]
	}
	return other
}

func (v aView) inOrder(order [aMasters]int) aView {
	v.born, v.change.born = v.born.inOrder(order), v.change.born.inOrder(order)
	return v
}

// undecided reports whether something may still go wrong in this step of time. Before the flush: two may come to vote, and one
// is emptied. After it: the one that was emptied may be taken for new, by a proxy in whose eyes all others are, or because another was
// admitted together with it; or that has been decided, and is on its way.
func (s *aState) undecided() bool {
	if s.flushes > 0 {
		return s.count(recordMark) <= aMasters-majority(aMasters)
	}
	for m, at := range s.masters {
		if at.danger == 0 || at.record.kind == recordMark {
			continue
		}
		for p := range s.views {
			if to := s.views[p][m].change.to.kind; to == recordOpening || to == recordVotes || !s.inhabited[p] && s.fooled(p, m) {
				return true
			}
		}
		for _, other := range s.masters {
			if at.record.kind == recordOpening && slices.Contains(other.born[:], at.record.nonce) {
				return true
			}
		}
	}
	return false
}

// fooled reports whether proxy p takes all masters but m for new, or may do so yet.
func (s *aState) fooled(p, m int) bool {
	isNew := func(kind recordKind) bool { return kind == recordNone || kind == recordOpening }
	for i, v := range s.views[p] {
		if i != m && !isNew(s.masters[i].record.kind) && !(v.up && isNew(v.record.kind)) {
			return false
		}
	}
	return true
}

func (r *admissionRun) then(next aState, what string, p, m int, wrong bool) {
	r.path = append(r.path, fmt.Sprintf("%s(%d,%d)", what, p, m))
	if wrong && r.found == "" {
		r.found = strings.Join(r.path, " ")
	}
	r.visit(next)
	r.path = r.path[:len(r.path)-1]
}

// eachNonce calls f for every nonce in s.
func (s *aState) eachNonce(f func(*uint8)) {
	record := func(r *aRecord, b *aBorn) {
		f(&r.nonce)
		for i := range b {
			f(&b[i])
		}
	}
	for m := range s.masters {
		record(&s.masters[m].record, &s.masters[m].born)
	}
	for p := range s.views {
		for m := range s.views[p] {
			v := &s.views[p][m]
			record(&v.record, &v.born)
			f(&v.mark)
			f(&v.voted)
			record(&v.change.from, &v.change.born)
			f(&v.change.to.nonce)
		}
	}
}

// freeNonce is one that s does not have.
func (s *aState) freeNonce() uint8 {
	var used [aNonces]bool
	s.eachNonce(func(n *uint8) { used[*n] = true })
	for n := 1; ; n++ {
		if !used[n] {
			return uint8(n)
		}
	}
}

// forget leaves out what makes no difference.
func (s *aState) forget() {
	for p := range s.views {
		for m := range s.views[p] {
			v := &s.views[p][m]
			if !v.up {
				v.record, v.born = aRecord{}, aBorn{}
			}
			if v.mark == 0 {
				v.markAge = 0
			}
			if s.inhabited[p] {
				v.fresh = true // it takes no master for new any more
			}
			if v.voted == 0 || v.votedAge == aForget {
				v.voted, v.votedAge = 0, 0
			}
		}
	}
}

// rename numbers nonces anew.
func (s *aState) rename() {
	var names [aNonces]uint8
	next := uint8(1)
	s.eachNonce(func(n *uint8) {
		if *n == 0 {
			return
		}
		if names[*n] == 0 {
			names[*n] = next
			next++
		}
		*n = names[*n]
	})
}
