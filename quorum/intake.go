package quorum

import (
	"sync"
	"time"

	"lockproxy/stat"
)

// intake limits how many acquisitions ask the masters at a time: to the size of the window. The
// others wait here in order of arrival, without a request to the masters: an acquisition has
// neither token nor clock before its attempt begins. Releases, extensions and all other
// operations bypass the intake, so they go before every LOCK that waits; and while lanes with room
// for more are fewer than a majority, no LOCK starts.
type intake struct {
	fleet *fleet

	mu       sync.Mutex
	window   window
	running  int // acquisitions with an attempt
	first    *acquisition
	last     *acquisition
	waiting  int
	timedOut uint64
	starting bool     // start runs
	draining bool     // no acquisition waits any more
	look     deadline // when to look again whether lanes have room
}

// init prepares the zero value for the lanes of f.
func (n *intake) init(f *fleet) {
	n.fleet, n.window, n.look.expire = f, window{size: minWindow}, n.start
	n.setRoomLocked()
}

// enter reports whether a may ask the masters now. Otherwise a waits until it gets an eventPlace;
// ends says that it must not wait, because the proxy is ending. With again, a has asked before,
// and goes before all that have not.
func (n *intake) enter(a *acquisition, again bool) (starts, ends bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.mayStartLocked() && (n.first == nil || again) {
		n.running++
		return true, false
	}
	if n.draining {
		return false, true
	}
	n.linkLocked(a, again)
	if !again && a.patience > 0 {
		n.fleet.deadlines.set(&a.waits, time.Now().Add(a.patience))
	}
	return false, false
}

// drain ends all acquisitions that wait, and all that would wait later, with ErrEnding.
func (n *intake) drain() {
	n.mu.Lock()
	n.draining = true
	n.mu.Unlock()
	for {
		n.mu.Lock()
		waits := n.first
		if waits != nil {
			n.unlinkLocked(waits)
		}
		n.mu.Unlock()
		if waits == nil {
			return
		}
		waits.handle(&event{kind: eventDrain})
	}
}

// leave takes away the place of an acquisition whose attempt has ended; nil after it gave up.
func (n *intake) leave(ended *attempt) {
	n.mu.Lock()
	n.running--
	round := ended != nil && ended.votes.verdict != noQuorum &&
		n.window.ended(ended.clock.Begun(), ended.took, n.waiting > 0)
	n.mu.Unlock()
	if round {
		target := windowTarget(n.fleet.distance())
		n.mu.Lock()
		if n.window.n > 0 {
			n.window.next(time.Now(), target)
			n.setRoomLocked()
		}
		n.mu.Unlock()
	}
	n.start()
}

// start starts as many acquisitions as may run. One that ends at once makes room for another: this
// loop starts it, not the call within, so that they do not pile up on the stack.
func (n *intake) start() {
	n.mu.Lock()
	if n.starting || n.first == nil {
		n.mu.Unlock()
		return
	}
	n.starting = true
	ended := false
	defer func() {
		if !ended { // a caller panicked, without the mutex
			n.mu.Lock()
			n.starting = false
			n.mu.Unlock()
		}
	}()
	for n.first != nil && n.mayStartLocked() {
		a := n.first
		n.unlinkLocked(a)
		n.running++
		n.mu.Unlock()
		a.handle(&event{kind: eventPlace})
		n.mu.Lock()
	}
	n.starting, ended = false, true
	n.mu.Unlock()
}

const (
	// roomOf is how many requests for each attempt of the window may wait on a lane: the acquire,
	// the UNLOCK of an earlier one, and half as much again. A lane of more than mostOf takes no
	// acquires.
	roomOf, mostOf = 3, 4
	// lookAfter is the time until lanes without room are looked at again.
	lookAfter = time.Millisecond
)

// mayStartLocked reports whether one more acquisition may ask the masters. If it must wait for
// lanes, start is called again soon.
func (n *intake) mayStartLocked() bool {
	if n.running >= n.window.size {
		return false
	}
	vote, full := 0, 0
	for _, l := range n.fleet.lanes {
		waiting, voting := l.Unanswered()
		if voting {
			vote++
			if waiting >= roomOf*n.window.size {
				full++
			}
		}
	}
	maj := majority(len(n.fleet.lanes))
	if full == 0 || vote < maj || vote-full >= maj { // too few votes: the attempt says why
		return true
	}
	n.fleet.deadlines.within(&n.look, time.Now().Add(lookAfter))
	return false
}

// setRoomLocked sets how many requests may wait on a lane.
func (n *intake) setRoomLocked() {
	for _, l := range n.fleet.lanes {
		l.SetRoom(mostOf * n.window.size)
	}
}

// remove takes a out if it waits, and returns how many waited.
func (n *intake) remove(a *acquisition, timedOut bool) (waited int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	waited = n.waiting
	if a.linked {
		n.unlinkLocked(a)
	}
	if timedOut {
		n.timedOut++
	}
	return waited
}

func (n *intake) linkLocked(a *acquisition, front bool) {
	a.linked = true
	n.waiting++
	switch {
	case n.first == nil:
		n.first, n.last = a, a
	case front:
		a.newer, n.first.older, n.first = n.first, a, a
	default:
		a.older, n.last.newer, n.last = n.last, a, a
	}
}

func (n *intake) unlinkLocked(a *acquisition) {
	if a.older == nil {
		n.first = a.newer
	} else {
		a.older.newer = a.newer
	}
	if a.newer == nil {
		n.last = a.older
	} else {
		a.newer.older = a.older
	}
	a.older, a.newer, a.linked = nil, nil, false
	n.waiting--
	n.fleet.deadlines.cancel(&a.waits)
}

// manyAttempts is how many LOCKs under way count as load.
const manyAttempts = 8

// load returns how many LOCKs are under way or wait.
func (n *intake) load() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.running + n.waiting
}

// waitingNow returns how many acquisitions wait.
func (n *intake) waitingNow() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.waiting
}

// overloaded reports whether LOCKs wait until they can be sent.
func (n *intake) overloaded() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.waiting > 0
}

// snapshot returns the load for operators, without LateBy and LateAt.
func (n *intake) snapshot() stat.Load {
	n.mu.Lock()
	defer n.mu.Unlock()
	return stat.Load{Waiting: n.waiting, Running: n.running, Window: n.window.size, TimedOut: n.timedOut}
}
