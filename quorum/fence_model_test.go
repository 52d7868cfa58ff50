package quorum

import (
	"fmt"
	"slices"
)

// A model of the fencing numbers: masters, each with a counter and a lock, and acquirers whose
// messages arrive in any order, late or never. Everything a master does in one script is one step.
// A run is wrong when a number is given out that is not greater than the one before, or while
// another still holds the lock.

// scheme is a way to come to a number.
type scheme struct {
	writeBack bool // a second round raises counters to the number
	compare   bool // only where our own lock still stands
	ofAll     bool // a majority of all masters has to confirm, not of those who granted
	level     bool // a master that lost its memory copies the counters of a majority
	early     bool // and does so before its quarantine is over
}

var ours = scheme{writeBack: true, compare: true, ofAll: true, level: true}

const (
	maxModelMasters = 5
	maxAcquirers    = 3
)

type modelPhase uint8

const (
	mAsking modelPhase = iota
	mRaising
	mHolding
	mReleased
	mFailed
)

const refusedHere = 255

const (
	raiseNone uint8 = iota
	raiseSent
	raiseConfirmed
	raiseDenied
)

// modelMaster is one master, and what is on its way to it. Masters are alike, so a state may be
// sorted by them.
type modelMaster struct {
	counter     uint8
	holder      uint8 // 1 + acquirer; 0: free
	quarantined bool
	got         [maxAcquirers]uint8 // the number counted for its acquire, refusedHere, or 0 as long as it has not arrived
	raise       [maxAcquirers]uint8
	fill        [maxAcquirers]bool // a fill is on its way
}

type modelAcquirer struct {
	phase modelPhase
	fence uint8
	old   bool // was at work when a master lost its memory
}

// model is one state. It is comparable.
type model struct {
	masters   [maxModelMasters]modelMaster
	acquirers [maxAcquirers]modelAcquirer
	last      uint8 // the number given out last
	fills     uint8 // that may still be sent
	losses    uint8 // that may still happen
	read      bool  // the master in quarantine has read the counters
	copied    uint8 // what it read
}

// modelRun is what does not change: how many there are, and the scheme.
type modelRun struct {
	scheme
	n, acquirers int
}

// step is called with each state that may follow, and what happened. It says whether to go on.
type step func(next model, what modelEvent) bool

type modelEvent struct {
	name     string
	acquirer int
	master   int
}

func (e modelEvent) String() string {
	return fmt.Sprintf("%s(%c,%d)", e.name, 'A'+e.acquirer, e.master)
}

// steps calls f for every step possible in s.
func (r *modelRun) steps(s model, f step) {
	for a := range r.acquirers {
		for m := range r.n {
			if !r.messages(s, a, m, f) {
				return
			}
		}
		if !r.decisions(s, a, f) {
			return
		}
	}
	for m := range r.n {
		if !r.faults(s, m, f) {
			return
		}
	}
}

// messages are those of a that master m may carry out now.
func (r *modelRun) messages(s model, a, m int, f step) bool {
	at := &s.masters[m]
	who := uint8(a + 1)
	ended := s.acquirers[a].phase >= mReleased
	ok := true
	if at.got[a] == 0 && !at.quarantined {
		next := s
		r.arrive(&next, a, m)
		ok = f(next, modelEvent{"acquire", a, m})
	}
	if ok && at.raise[a] == raiseSent {
		next := s
		to := &next.masters[m]
		if at.holder == who || !r.compare {
			to.raise[a] = raiseConfirmed
			to.counter = max(to.counter, s.acquirers[a].fence)
		} else {
			to.raise[a] = raiseDenied
		}
		ok = f(next, modelEvent{"raise", a, m})
	}
	if ok && at.fill[a] {
		next := s
		to := &next.masters[m]
		to.fill[a] = false
		if at.holder == 0 {
			to.holder, to.counter = who, max(to.counter, s.acquirers[a].fence)
		}
		ok = f(next, modelEvent{"fill", a, m})
	}
	if ok && ended && at.holder == who {
		next := s
		next.masters[m].holder = 0
		ok = f(next, modelEvent{"release", a, m})
	}
	return ok
}

// arrive carries out the acquire of a on master m.
func (r *modelRun) arrive(s *model, a, m int) {
	at, who := &s.masters[m], &s.acquirers[a]
	if at.holder != 0 {
		at.got[a] = refusedHere
		return
	}
	at.counter++
	at.holder, at.got[a] = uint8(a+1), at.counter
	if r.writeBack && (who.phase == mRaising || who.phase == mHolding) && at.raise[a] == raiseNone {
		at.raise[a] = raiseSent // a late grant joins
		if at.counter == who.fence {
			at.raise[a] = raiseConfirmed
		}
	}
}

// decisions are what acquirer a may do by itself.
func (r *modelRun) decisions(s model, a int, f step) bool {
	who := s.acquirers[a]
	switch who.phase {
	case mAsking, mRaising:
		next := s
		if who.phase == mAsking && r.decide(&next, a) {
			if !f(next, modelEvent{"decide", a, 0}) {
				return false
			}
		}
		next = s
		if who.phase == mRaising && r.confirmed(&s, a) >= r.needed(&s, a) {
			next.acquirers[a].phase = mHolding
			if !f(next, modelEvent{"win", a, 0}) {
				return false
			}
		}
		next = s
		next.acquirers[a].phase = mFailed
		return f(next, modelEvent{"fail", a, 0})
	case mHolding:
		for m := range r.n {
			if s.fills == 0 || s.masters[m].holder != 0 || s.masters[m].quarantined || s.masters[m].fill[a] || r.holds(&s, a) < majority(r.n) {
				continue
			}
			next := s
			next.fills--
			next.masters[m].fill[a] = true
			if !f(next, modelEvent{"extend and fill", a, m}) {
				return false
			}
		}
		next := s
		next.acquirers[a].phase = mReleased
		return f(next, modelEvent{"unlock", a, 0})
	}
	return true
}

// decide ends the first round, if a majority has granted.
func (r *modelRun) decide(s *model, a int) bool {
	who := &s.acquirers[a]
	granted := 0
	who.fence = 0
	for m := range r.n {
		if got := s.masters[m].got[a]; got != 0 && got != refusedHere {
			granted++
			who.fence = max(who.fence, got)
		}
	}
	if granted < majority(r.n) {
		return false
	}
	who.phase = mRaising
	for m := range r.n {
		at := &s.masters[m]
		switch {
		case at.got[a] == who.fence || !r.writeBack:
			at.raise[a] = raiseConfirmed
		case at.got[a] != 0 && at.got[a] != refusedHere || !r.compare:
			at.raise[a] = raiseSent
		}
	}
	return true
}

func (r *modelRun) confirmed(s *model, a int) (n int) {
	for m := range r.n {
		if s.masters[m].raise[a] == raiseConfirmed {
			n++
		}
	}
	return n
}

func (r *modelRun) holds(s *model, a int) (n int) {
	for m := range r.n {
		if int(s.masters[m].holder) == a+1 {
			n++
		}
	}
	return n
}

func (r *modelRun) needed(s *model, a int) int {
	if r.ofAll {
		return majority(r.n)
	}
	granted := 0
	for m := range r.n {
		if got := s.masters[m].got[a]; got != 0 && got != refusedHere {
			granted++
		}
	}
	return majority(granted)
}

// faults are the loss of a master's memory and its way back.
func (r *modelRun) faults(s model, m int, f step) bool {
	at := &s.masters[m]
	if !at.quarantined {
		if s.losses == 0 {
			return true
		}
		next := s
		next.losses--
		to := &next.masters[m]
		to.counter, to.holder, to.quarantined = 0, 0, true
		to.fill = [maxAcquirers]bool{}
		for a := range r.acquirers {
			next.acquirers[a].old = s.acquirers[a].phase <= mHolding && (s.acquirers[a].phase != mAsking || r.hasGrant(&s, a))
		}
		return f(next, modelEvent{"lose memory", 0, m})
	}
	over := r.quarantineOver(&s)
	if r.level && !s.read && (over || r.early) {
		next := s
		next.read, next.copied = true, r.leastMax(&s, m)
		if !f(next, modelEvent{"read counters", 0, m}) {
			return false
		}
	}
	if over && (s.read || !r.level) {
		next := s
		to := &next.masters[m]
		to.quarantined, to.counter = false, max(to.counter, s.copied)
		next.read, next.copied = false, 0
		return f(next, modelEvent{"rejoin", 0, m})
	}
	return true
}

func (r *modelRun) hasGrant(s *model, a int) bool {
	for m := range r.n {
		if got := s.masters[m].got[a]; got != 0 && got != refusedHere {
			return true
		}
	}
	return false
}

// quarantineOver: what was granted before the loss is over by then, or was extended on a majority
// since.
func (r *modelRun) quarantineOver(s *model) bool {
	for a := range r.acquirers {
		who := s.acquirers[a]
		if who.old && who.phase <= mHolding && (who.phase != mHolding || r.holds(s, a) < majority(r.n)) {
			return false
		}
	}
	return true
}

// leastMax is the largest counter of n/2+1 masters other than m, those with the least.
func (r *modelRun) leastMax(s *model, m int) uint8 {
	var others []uint8
	for i := range r.n {
		if i != m {
			others = append(others, s.masters[i].counter)
		}
	}
	slices.Sort(others)
	return others[min(majority(r.n), len(others))-1]
}
