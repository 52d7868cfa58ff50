package quorum

// A model of exclusion: three masters that may lose their memory, two proxies that lock, and mark
// and admit masters. Messages are late, or come never, or are overtaken by those of the other
// proxy; on the lane of one proxy they keep their order. Time goes in steps for all alike, and
// everything is kept as time left or passed, so a search through all states ends by itself.

const (
	xTTL      = 2 // steps of time
	xMasters  = 3
	xProxies  = 2
	xAttempts = 3
)

// exclusionRules are the rules that the search tries with and without.
type exclusionRules struct {
	compare bool  // scripts compare the record
	mark    bool  // a master without a record gets a mark first
	wait    uint8 // how long a mark must have stood
	recount bool  // another mark begins the count anew
	fresh   bool  // each attempt has a token of its own
}

var ourRules = exclusionRules{compare: true, mark: true, wait: xTTL, recount: true, fresh: true}

const (
	xNone  uint8 = iota // no record
	xMark               // in quarantine
	xVotes              // admitted
)

// xMaster is one master, and what is known of it and on its way to it. Masters are alike, so
// states are sorted by them.
type xMaster struct {
	holder uint8 // 1 + token; 0: free
	left   uint8 // until the key runs out
	kind   uint8 // of its record
	nonce  uint8 // of its record: each has another
	seen   [xProxies]xSeen
	to     [xAttempts]xMessages
}

// xSeen is what a proxy knows of a master's record.
type xSeen struct{ kind, nonce, age uint8 } // age: how long it has known the mark to stand

// xMessages are those of one attempt to one master.
type xMessages struct {
	set    uint8 // 0 not sent, 1 on its way, 2 over
	record uint8 // nonce of the record under which it was sent
	got    bool  // granted
	del    uint8 // 0 not sent, 1 on its way, 2 carried out and not answered: comes once more if the lane breaks, 3 over
}

const (
	xIdle uint8 = iota
	xAsking
	xHolding
	xOver
)

type xAttempt struct{ phase, age uint8 }

// xState is one state. It is comparable.
type xState struct {
	masters  [xMasters]xMaster
	attempts [xAttempts]xAttempt
	losses   uint8 // that may still happen
	repeats  uint8 // releases that may still come twice
}

// exclusionRun is what does not change. Attempts belong to the proxies in turn: the third is the
// first proxy's second.
type exclusionRun struct {
	exclusionRules
	attempts int
}

func (r *exclusionRun) token(a int) uint8 {
	if !r.fresh {
		a %= xProxies
	}
	return uint8(1 + a)
}

// start is the state in which all masters vote, as both proxies know.
func (r *exclusionRun) start(losses, repeats uint8) (s xState) {
	for m := range s.masters {
		s.masters[m].kind, s.masters[m].nonce = xVotes, 1
		for p := range xProxies {
			s.masters[m].seen[p] = xSeen{kind: xVotes, nonce: 1}
		}
	}
	s.losses, s.repeats = losses, repeats
	return s
}

// xStep is called with each state that may follow; it says whether to go on.
type xStep func(next xState, what string, i, m int) bool

// steps calls f for every step possible in s.
func (r *exclusionRun) steps(s xState, f xStep) bool {
	for m := range s.masters {
		if !r.masterSteps(s, m, f) {
			return false
		}
	}
	for a := range r.attempts {
		if !r.attemptSteps(s, a, f) {
			return false
		}
	}
	next := s
	return !r.tick(&next) || f(next, "tick", 0, 0)
}

// attemptSteps are what an attempt decides by itself, and its messages.
func (r *exclusionRun) attemptSteps(s xState, a int, f xStep) bool {
	next := s
	switch at := s.attempts[a]; {
	case at.phase == xIdle && (a < xProxies || s.attempts[a-xProxies].phase == xOver):
		r.ask(&next, a)
		if !f(next, "ask", a, 0) {
			return false
		}
	case at.phase == xAsking:
		if s.votes(a) >= majority(xMasters) {
			next.attempts[a].phase = xHolding
			if !f(next, "lock", a, 0) {
				return false
			}
		}
		next = s
		next.end(a)
		if !f(next, "fail", a, 0) {
			return false
		}
	case at.phase == xHolding:
		next.end(a)
		if !f(next, "unlock", a, 0) {
			return false
		}
	}
	for m := range s.masters {
		if !r.messageSteps(s, a, m, f) {
			return false
		}
	}
	return true
}

// messageSteps are the arrivals of a's messages at m. On a lane the SET is before the release, and
// both before the next attempt's.
func (r *exclusionRun) messageSteps(s xState, a, m int, f xStep) bool {
	to := s.masters[m].to[a]
	if a >= xProxies {
		if before := s.masters[m].to[a-xProxies]; before.set == 1 || before.del == 1 {
			return true
		}
	}
	next := s
	at := &next.masters[m]
	switch {
	case to.set == 1:
		at.to[a].set = 2
		if r.compare && (at.kind != xVotes || at.nonce != to.record) {
			return true // answered with an error: as if it were late for ever
		}
		if at.holder == 0 {
			at.holder, at.left, at.to[a].got = r.token(a), xTTL, true
		}
		return f(next, "set", a, m)
	case to.del == 1:
		at.to[a].del = 3
		if s.repeats > 0 {
			at.to[a].del = 2
		}
		r.release(at, a)
		return f(next, "release", a, m)
	case to.del == 2 && s.repeats > 0:
		next.repeats--
		at.to[a].del = 3
		r.release(at, a)
		return f(next, "release again", a, m)
	}
	return true
}

func (r *exclusionRun) release(at *xMaster, a int) {
	if at.holder == r.token(a) {
		at.holder, at.left = 0, 0
	}
}

// ask sends the SETs of a, to those masters that its proxy takes for voting.
func (r *exclusionRun) ask(s *xState, a int) {
	s.attempts[a].phase = xAsking
	for m := range s.masters {
		at := &s.masters[m]
		if seen := at.seen[a%xProxies]; seen.kind == xVotes {
			at.to[a] = xMessages{set: 1, record: seen.nonce}
		}
	}
}

func (s *xState) votes(a int) (n int) {
	for m := range s.masters {
		if s.masters[m].to[a].got {
			n++
		}
	}
	return n
}

// end sends the releases of a.
func (s *xState) end(a int) {
	s.attempts[a] = xAttempt{phase: xOver}
	for m := range s.masters {
		if to := &s.masters[m].to[a]; to.set != 0 {
			to.del = 1
		}
	}
}

// tick lets time pass. It is no step where nothing changes.
func (r *exclusionRun) tick(s *xState) bool {
	before := *s
	for a := range r.attempts {
		at := &s.attempts[a]
		if at.phase != xAsking && at.phase != xHolding {
			continue
		}
		if at.age++; at.age == xTTL {
			s.end(a) // too late to be granted, or its validity is over
		}
	}
	for m := range s.masters {
		at := &s.masters[m]
		if at.left > 0 {
			if at.left--; at.left == 0 {
				at.holder = 0
			}
		}
		for p := range at.seen {
			if seen := &at.seen[p]; seen.kind == xMark {
				seen.age = min(seen.age+1, r.wait)
			}
		}
	}
	return *s != before
}

// masterSteps are the loss of a master's memory, and what the proxies do about it.
func (r *exclusionRun) masterSteps(s xState, m int, f xStep) bool {
	if s.losses > 0 {
		next := s
		next.losses--
		at := &next.masters[m]
		at.holder, at.left, at.kind = 0, 0, xNone
		if !f(next, "loses its memory", 0, m) {
			return false
		}
	}
	for p := range xProxies {
		at := s.masters[m]
		next := s
		r.look(&next.masters[m], p)
		if next.masters[m] != at && !f(next, "look", p, m) {
			return false
		}
		if seen := at.seen[p]; seen.kind == xMark && seen.age == r.wait && at.kind == xMark && at.nonce == seen.nonce {
			next = s
			next.masters[m].write(xVotes, p)
			if !f(next, "admit", p, m) {
				return false
			}
		}
	}
	return true
}

// look reads the record, and writes one where there is none.
func (r *exclusionRun) look(at *xMaster, p int) {
	if at.kind == xNone {
		if !r.mark {
			at.write(xVotes, p)
			return
		}
		at.write(xMark, p)
	}
	seen := &at.seen[p]
	switch {
	case at.kind != xMark:
		age := seen.age
		*seen = xSeen{kind: at.kind, nonce: at.nonce}
		if !r.recount {
			seen.age = age
		}
	case r.recount && *seen != xSeen{xMark, at.nonce, seen.age}:
		*seen = xSeen{kind: xMark, nonce: at.nonce}
	default:
		seen.kind, seen.nonce = xMark, at.nonce
	}
}

// write is proxy p's change of a record; it knows of it.
func (at *xMaster) write(kind uint8, p int) {
	at.kind = kind
	at.nonce++
	if kind == xVotes {
		at.seen[p] = xSeen{kind: kind, nonce: at.nonce}
	}
}
