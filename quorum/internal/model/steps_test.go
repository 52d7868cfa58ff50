package model

import "fmt"

// The steps from one state to the next.

type event struct {
	name string
	a, m int
}

func (e event) String() string { return fmt.Sprintf("%s(%c,%d)", e.name, 'A'+e.a, e.m) }

// successors visits the states that can follow s.
type successors struct {
	*run
	s       *state
	next    *state                             // scratch for the next state
	visit   func(next *state, what event) bool // reports whether to continue
	stopped bool
}

// may visits the state after a change, if that differs from s.
func (x *successors) may(name string, a, m int, change func(next *state)) {
	if x.stopped {
		return
	}
	*x.next = *x.s
	if change(x.next); *x.next != *x.s {
		x.stopped = !x.visit(x.next, event{name, a, m})
	}
}

// steps visits all of them. Without time, attempts begin at once: their messages may be late
// anyway.
func (x *successors) steps() {
	for a := range x.roles {
		if x.s.attempts[a].phase == idle && !(x.roles[a].turn && x.s.attempts[a-1].phase < keeping) {
			x.may("ask", a, 0, func(next *state) { x.begin(next, a) })
			if x.timeless && !x.untidy {
				return
			}
		}
	}
	for m := range x.n {
		x.faults(m)
	}
	for a := range x.roles {
		x.decisions(a)
		for m := range x.n {
			x.messages(a, m)
		}
	}
	if !x.timeless {
		x.may("tick", 0, 0, x.tick)
	}
}

// messages visits arrivals of a's messages at master m. A loss matters only if another message
// follows on the lane.
func (x *successors) messages(a, m int) {
	for lane, q := range x.s.masters[m].to[a].lanes {
		if q[0] == none || x.roles[a].onLane && x.s.masters[m].to[a-1].lanes[lane][0] != none {
			continue
		}
		x.may(opNames[q[0].kind()], a, m, func(next *state) { x.arrive(next, a, m, lane) })
		if x.s.drops > 0 && (q[1] != none || x.untidy) {
			x.may("drop", a, m, func(next *state) {
				if next.drops < all {
					next.drops--
				}
				next.masters[m].to[a].pop(lane)
			})
		}
	}
	if x.s.masters[m].to[a].again && x.s.repeats > 0 {
		x.may("release again", a, m, func(next *state) {
			next.repeats--
			next.masters[m].to[a].again = false
			x.release(&next.masters[m], a)
		})
	}
}

// begin sends a's acquires.
func (r *run) begin(s *state, a int) {
	s.attempts[a].phase = asking
	for m := range r.n {
		r.send(s, a, m, 0, acquire)
		if r.keyByKey && r.roles[a].keys == 3 {
			r.send(s, a, m, 0, acquireSecond)
		}
	}
}

// decisions visits the steps of a that need no message.
func (x *successors) decisions(a int) {
	who := x.s.attempts[a]
	switch who.phase {
	case idle, over:
		return
	case asking, raising:
		if who.phase == asking {
			x.may("decide", a, 0, func(next *state) { x.decide(next, a) })
		} else if x.confirmed(x.s, a) >= x.needed(x.s, a) {
			x.may("win", a, 0, func(next *state) { next.attempts[a].phase = holding })
		}
		x.may("fail", a, 0, func(next *state) { x.end(next, a, 0, release) })
		return
	}
	for lane := range x.lanes(a) {
		x.wishes(a, lane)
	}
	if who.asked != none && x.s.done(a) >= x.majority() {
		x.may("answer", a, int(who.asked), func(next *state) { x.answered(next, a) })
	}
}

// wishes visits a holder's commands through one proxy.
func (x *successors) wishes(a, lane int) {
	who, may := x.s.attempts[a], x.roles[a].may
	if may&mayExtend != 0 && x.s.extends > 0 && who.asked == none {
		x.may("EXTEND", a, lane, func(next *state) {
			next.extends--
			x.ask(next, a, lane, extend)
		})
	}
	if who.phase != holding {
		return
	}
	if may&mayShare != 0 && (!who.shared || x.s.extends > 0) && who.asked != share {
		x.may("EXTEND SHARED", a, lane, func(next *state) {
			if who.shared {
				next.extends--
			}
			next.attempts[a].shared = !x.sharesLate
			x.ask(next, a, lane, share)
		})
	}
	if may&mayKeep != 0 {
		x.may("UNLOCK KEEP", a, lane, func(next *state) {
			next.attempts[a].phase = keeping
			x.ask(next, a, lane, keep)
		})
	}
	x.may("UNLOCK", a, lane, func(next *state) { x.end(next, a, lane, release) })
}

// ask sends a holder's command.
func (r *run) ask(s *state, a, lane int, o op) {
	who := &s.attempts[a]
	who.asked, who.askedAge, who.lane = o, 0, uint8(lane)
	for m := range r.n {
		s.masters[m].to[a].done = false
		r.send(s, a, m, lane, o)
	}
}

func (s *state) done(a int) (n int) {
	for m := range s.masters {
		if s.masters[m].to[a].done {
			n++
		}
	}
	return n
}

// answered gives the holder the answer of a majority, and fills the other masters.
func (r *run) answered(s *state, a int) {
	who := &s.attempts[a]
	asked := who.asked
	who.asked = none
	switch {
	case asked == keep:
		who.phase, who.age = closed, who.askedAge
		return
	case who.phase == closed:
		who.undead = true
		return
	}
	who.late = who.late || r.superseded(s, a)
	who.phase, who.age, who.shared = holding, who.askedAge, who.shared || asked == share
	for m := range r.n {
		if !s.masters[m].to[a].done {
			r.send(s, a, m, int(who.lane), r.aged(fill, who.askedAge))
		}
	}
}

// granted reports whether a may count the grant of master m. Of a limit it counts one slot.
func (r *run) granted(s *state, a, m int, slot uint8) bool {
	link := &s.masters[m].to[a]
	all := link.got != 0 && link.got != refused && link.have == r.roles[a].keys
	return all && (link.slot == slot || r.anySlot)
}

// decide ends the first round if a majority has granted, and releases grants of other slots.
func (r *run) decide(s *state, a int) {
	who := &s.attempts[a]
	for slot := range uint8(maxSlots) {
		n, fence := 0, uint8(0)
		for m := range r.n {
			if r.granted(s, a, m, slot) {
				n++
				fence = max(fence, s.masters[m].to[a].got)
			}
		}
		if n < r.majority() {
			continue
		}
		who.phase, who.fence, who.slot = raising, fence, slot
		for m := range r.n {
			if link := &s.masters[m].to[a]; r.blind || link.got != 0 && link.got != refused {
				r.join(s, a, m)
			}
		}
		return
	}
}

// join adds a grant to the second round.
func (r *run) join(s *state, a, m int) {
	who, link := s.attempts[a], &s.masters[m].to[a]
	switch {
	case who.phase != raising && who.phase != holding || link.raise != unsent:
	case (link.got == who.fence || r.unraised) && r.granted(s, a, m, who.slot):
		link.raise = confirmed
	case r.blind || r.granted(s, a, m, who.slot):
		link.raise = sent
		r.send(s, a, m, 0, raise)
	case link.got != refused:
		link.raise = denied
		r.send(s, a, m, 0, release) // another slot
	}
}

func (r *run) confirmed(s *state, a int) (n int) {
	for m := range r.n {
		if s.masters[m].to[a].raise == confirmed {
			n++
		}
	}
	return n
}

func (r *run) needed(s *state, a int) int {
	n := 0
	for m := range r.n {
		if r.granted(s, a, m, s.attempts[a].slot) {
			n++
		}
	}
	if r.ofGranted {
		return n/2 + 1
	}
	return r.majority()
}

// end ends an attempt, or its lock, and forgets the answers.
func (r *run) end(s *state, a, lane int, o op) {
	who := s.attempts[a]
	s.attempts[a] = attempt{phase: over, fence: who.fence, slot: who.slot, shared: who.shared}
	for m := range r.n {
		if o != none {
			r.send(s, a, m, lane, o)
		}
		s.masters[m].to[a] = link{lanes: s.masters[m].to[a].lanes}
	}
}
