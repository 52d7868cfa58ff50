package quorum

import "fmt"

// What may happen in the model of kinds.

type kEvent struct {
	name string
	a, m int
}

func (e kEvent) String() string { return fmt.Sprintf("%s(%c,%d)", e.name, 'A'+e.a, e.m) }

// kStep is called with each state that may follow; it says whether to go on.
type kStep func(next kState, what kEvent) bool

// kArrivals are the names of messages that arrive.
var kArrivals = [...]string{
	kAcquire: "acquire", kAcquireSecond: "acquire second", kRaise: "raise", kExtend: "extend",
	kFill: "fill", kShare: "share", kKeep: "keep", kRelease: "release",
}

// steps calls f for every step possible in s.
func (r *kRun) steps(s kState, f kStep) bool {
	for a := range r.roles {
		if !r.decisions(s, a, f) {
			return false
		}
		for m := range r.n {
			for lane, q := range s.masters[m].to[a].lanes {
				if q[0] == kNo {
					continue
				}
				next := s
				if op := r.arrive(&next, a, m, lane); !f(next, kEvent{kArrivals[op], a, m}) {
					return false
				}
				if s.drops > 0 {
					next = s
					next.drops--
					q := &next.masters[m].to[a].lanes[lane]
					copy(q[:], q[1:])
					q[kLane-1] = kNo
					if !f(next, kEvent{"drop", a, m}) {
						return false
					}
				}
			}
		}
	}
	for m := range r.n {
		if !r.faults(s, m, f) {
			return false
		}
	}
	next := s
	return r.timeless || !r.tick(&next) || f(next, kEvent{"tick", 0, 0})
}

// decisions are what a may do by itself.
func (r *kRun) decisions(s kState, a int, f kStep) bool {
	next, who := s, s.attempts[a]
	switch who.phase {
	case kIdle:
		if r.roles[a].turn && s.attempts[a-1].phase < kKeeping {
			return true
		}
		next.attempts[a].phase = kAsking
		for m := range r.n {
			next.send(a, m, 0, kAcquire)
			if r.keyByKey && r.roles[a].keys == 3 {
				next.send(a, m, 0, kAcquireSecond)
			}
		}
		return f(next, kEvent{"ask", a, 0})
	case kAsking, kRaising:
		if who.phase == kAsking && r.decide(&next, a) && !f(next, kEvent{"decide", a, 0}) {
			return false
		}
		next = s
		if who.phase == kRaising && r.confirmed(&s, a) >= r.needed(&s, a) {
			next.attempts[a].phase = kHolding
			if !f(next, kEvent{"win", a, 0}) {
				return false
			}
		}
		next = s
		r.end(&next, a, 0, kRelease)
		return f(next, kEvent{"fail", a, 0})
	}
	for lane := range r.proxies(a) {
		if !r.wishes(s, a, lane, f) {
			return false
		}
	}
	if who.asked != kNo && s.done(a) >= majority(r.n) {
		r.answered(&next, a)
		return f(next, kEvent{"answer", a, int(who.asked)})
	}
	return true
}

// wishes are what the holder may ask for, through a proxy.
func (r *kRun) wishes(s kState, a, lane int, f kStep) bool {
	next, who, may := s, s.attempts[a], r.roles[a].may
	if who.phase < kHolding || who.phase == kOver {
		return true
	}
	if may&kMayExtend != 0 && s.extends > 0 && who.asked == kNo {
		next.extends--
		r.ask(&next, a, lane, kExtend)
		if !f(next, kEvent{"EXTEND", a, lane}) {
			return false
		}
	}
	if who.phase != kHolding {
		return true
	}
	next = s
	if may&kMayShare != 0 && (!who.shared || s.extends > 0) && who.asked != kShare {
		if who.shared {
			next.extends--
		}
		next.attempts[a].shared = !r.sharesLate
		r.ask(&next, a, lane, kShare)
		if !f(next, kEvent{"EXTEND SHARED", a, lane}) {
			return false
		}
	}
	next = s
	if may&kMayKeep != 0 {
		next.attempts[a].phase = kKeeping
		r.ask(&next, a, lane, kKeep)
		if !f(next, kEvent{"UNLOCK KEEP", a, lane}) {
			return false
		}
	}
	next = s
	r.end(&next, a, lane, kRelease)
	return f(next, kEvent{"UNLOCK", a, lane})
}

// ask sends what a holder asks for.
func (r *kRun) ask(s *kState, a, lane int, op kOp) {
	who := &s.attempts[a]
	who.asked, who.askedAge, who.lane = op, 0, uint8(lane)
	for m := range r.n {
		s.masters[m].to[a].done = false
		s.send(a, m, lane, op)
	}
}

func (s *kState) done(a int) (n int) {
	for m := range s.masters {
		if s.masters[m].to[a].done {
			n++
		}
	}
	return n
}

// answered tells the holder that a majority has done what it asked for. The others are filled.
func (r *kRun) answered(s *kState, a int) {
	who := &s.attempts[a]
	asked := who.asked
	who.asked = kNo
	switch {
	case asked == kKeep:
		who.phase, who.age = kClosed, who.askedAge
		return
	case who.phase == kClosed:
		who.undead = true
		return
	}
	who.age, who.shared = who.askedAge, who.shared || asked == kShare
	for m := range r.n {
		if !s.masters[m].to[a].done {
			s.send(a, m, int(who.lane), kFill)
		}
	}
}

// granted is whether master m has granted what a may count: of a limit, the slot.
func (r *kRun) granted(s *kState, a, m int, slot uint8) bool {
	link := &s.masters[m].to[a]
	all := link.got != 0 && link.got != refusedHere && link.have == r.roles[a].keys
	return all && (link.slot == slot || r.anySlot)
}

// decide ends the first round, if a majority has granted. Grants of other slots are released.
func (r *kRun) decide(s *kState, a int) bool {
	who := &s.attempts[a]
	for slot := range uint8(kSlots) {
		n, fence := 0, uint8(0)
		for m := range r.n {
			if r.granted(s, a, m, slot) {
				n++
				fence = max(fence, s.masters[m].to[a].got)
			}
		}
		if n >= majority(r.n) {
			who.phase, who.fence, who.slot = kRaising, fence, slot
			for m := range r.n {
				if link := &s.masters[m].to[a]; r.blind || link.got != 0 && link.got != refusedHere {
					r.join(s, a, m)
				}
			}
			return true
		}
	}
	return false
}

// join takes a grant into the second round.
func (r *kRun) join(s *kState, a, m int) {
	who, link := s.attempts[a], &s.masters[m].to[a]
	switch {
	case who.phase != kRaising && who.phase != kHolding || link.raise != raiseNone:
	case link.got == who.fence && r.granted(s, a, m, who.slot):
		link.raise = raiseConfirmed
	case r.blind || r.granted(s, a, m, who.slot):
		link.raise = raiseSent
		s.send(a, m, 0, kRaise)
	case link.got != refusedHere:
		link.raise = raiseDenied
		s.send(a, m, 0, kRelease) // another slot
	}
}

func (r *kRun) confirmed(s *kState, a int) (n int) {
	for m := range r.n {
		if s.masters[m].to[a].raise == raiseConfirmed {
			n++
		}
	}
	return n
}

func (r *kRun) needed(s *kState, a int) int {
	n := 0
	for m := range r.n {
		if r.granted(s, a, m, s.attempts[a].slot) {
			n++
		}
	}
	if r.ofGranted {
		return majority(n)
	}
	return majority(r.n)
}

// end is the end of an attempt, or of its lock. What came back makes no difference any more.
func (r *kRun) end(s *kState, a, lane int, op kOp) {
	who := s.attempts[a]
	s.attempts[a] = kAttempt{phase: kOver, fence: who.fence, slot: who.slot, shared: who.shared}
	for m := range r.n {
		if op != kNo {
			s.send(a, m, lane, op)
		}
		s.masters[m].to[a] = kLink{lanes: s.masters[m].to[a].lanes}
	}
}
