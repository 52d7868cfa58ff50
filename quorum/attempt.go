package quorum

import (
	"sync"
	"time"
)

// phase is how far an attempt is. Answers keep coming in all of them.
type phase uint8

const (
	asking  phase = iota // step 2 and 3
	raising              // the second fencing round
	leased               // the caller has, or is about to get, its token
	failed               // released everywhere
)

type voteState uint8

const (
	votePending voteState = iota
	voteUnsent            // the lane did not take it, or broke before it was written: nothing can land
	voteGranted
	voteRefused
	voteError // an error reply
	voteBroke // the lane broke: it may land until the next hand-over
)

// vote is what one master said to an attempt.
type vote struct {
	state voteState
	fence uint64        // voteGranted: the number this master counted
	left  time.Duration // voteRefused: how long the key in the way lives; negative: for ever
	err   error         // voteUnsent, voteError, voteBroke: why
}

// attempt is one try to acquire a key: one token, one question to every master. It is shared by the caller and the
// lanes' readers, and lives until the last answer is in, which may be long after the caller has left.
type attempt struct {
	q *Quorum
	waiter
	users
	debtKey
	owner   string
	ttl     time.Duration
	timeout time.Duration
	clock   stopwatch // since step 1

	mu        sync.Mutex
	phase     phase
	verdict   verdict // of the phase; set once in each
	votes     []vote
	tally     tally
	fence     uint64 // F: the number in the token, from phase raising on
	voters    voters // leased: the masters whose grants made the lease
	confirmed int    // raising: masters known to carry F at our value
	raises    int    // raising: on their way
}

var _ receiver = (*attempt)(nil)

// newAttempt starts the clock (step 1).
func (q *Quorum) newAttempt(r Request) *attempt {
	a := q.pools.attempts.Get().(*attempt)
	a.users.start()
	a.debtKey = debtKey{key: r.Key, secret: q.opts.dice.newSecret()}
	a.owner, a.ttl, a.timeout = r.Owner, r.TTL, attemptTimeout(q.opts.MasterTimeout, r.TTL)
	a.phase, a.verdict, a.fence, a.confirmed, a.raises = asking, open, 0, 0, 0
	a.tally = tally{pending: len(a.votes)}
	clear(a.votes)
	a.waiter.reset()
	a.clock = startWatch()
	return a
}

// leave is called once for each user.
func (a *attempt) leave() {
	if a.users.done() {
		a.debtKey, a.owner = debtKey{}, ""
		a.q.pools.attempts.Put(a)
	}
}

// ask sends the acquire to all masters at once (step 2).
func (a *attempt) ask() {
	for i, l := range a.q.lanes {
		a.users.add()
		if err := l.send(command{op: opAcquire, to: a, key: a.key, secret: a.secret, ttl: a.ttl, owner: a.owner}); err != nil {
			a.voted(i, vote{state: voteUnsent, err: err}, false)
			a.leave()
		}
	}
}

func (a *attempt) reply(lane int, op opKind, r *reply) {
	switch {
	case op == opRaise:
		a.raised(r.is(1))
	case granted(r):
		a.voted(lane, vote{state: voteGranted, fence: uint64(r.ints[1])}, false)
	case refused(r):
		a.voted(lane, vote{state: voteRefused, left: time.Duration(r.ints[1]) * time.Millisecond}, false)
	default:
		a.voted(lane, vote{state: voteError, err: answered(r)}, r.code() == "NOSCRIPT")
	}
	a.leave()
}

func (a *attempt) gone(lane int, op opKind, err error, written bool) {
	switch {
	case op == opRaise:
		a.raised(false)
	case written:
		a.voted(lane, vote{state: voteBroke, err: err}, false)
	default:
		a.voted(lane, vote{state: voteUnsent, err: err}, false)
	}
	a.leave()
}

// voted takes a master's answer to the acquire, whenever it comes.
func (a *attempt) voted(lane int, v vote, noScript bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.votes[lane] = v
	a.tally.pending--
	switch v.state {
	case voteGranted:
		a.tally.granted++
	case voteRefused:
		a.tally.refused++
	default:
		a.tally.none++
		if noScript {
			a.tally.noScript++
		}
	}
	switch a.phase {
	case asking:
		a.concludeLocked(a.tally.decide())
	case raising:
		if v.state == voteGranted {
			a.joinLocked(lane)
		}
		a.concludeLocked(decideRaise(a.confirmed, a.raises+a.tally.pending, len(a.votes)))
	case leased:
		a.lateLocked(lane)
	case failed:
		// Its release is behind it on the lane, or owed.
	}
}

// concludeLocked wakes the caller once in each phase.
func (a *attempt) concludeLocked(v verdict) {
	if a.verdict == open && v != open {
		a.verdict = v
		a.signal()
	}
}

// highestLocked is F, and how many masters granted with exactly that number.
func (a *attempt) highestLocked() (fence uint64, exact int) {
	for _, v := range a.votes {
		switch {
		case v.state != voteGranted || v.fence < fence:
		case v.fence == fence:
			exact++
		default:
			fence, exact = v.fence, 1
		}
	}
	return fence, exact
}

// raiseLocked begins the second fencing round: every master that granted with another number is told F, where our
// value still stands.
func (a *attempt) raiseLocked() {
	a.phase, a.verdict, a.confirmed, a.raises = raising, open, 0, 0
	a.waiter.reset()
	for i, v := range a.votes {
		if v.state == voteGranted {
			a.joinLocked(i)
		}
	}
	a.concludeLocked(decideRaise(a.confirmed, a.raises+a.tally.pending, len(a.votes)))
}

// joinLocked takes a master that granted into the second round.
func (a *attempt) joinLocked(lane int) {
	if a.votes[lane].fence == a.fence {
		a.confirmed++
		return
	}
	a.users.add()
	c := command{op: opRaise, to: a, key: a.key, secret: a.secret, fence: a.fence}
	if a.q.lanes[lane].send(c) != nil {
		a.users.done() // never the last: whoever called is one
		return
	}
	a.raises++
}

// raised takes a master's answer to the raise.
func (a *attempt) raised(ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.phase != raising {
		return
	}
	a.raises--
	if ok {
		a.confirmed++
	}
	a.concludeLocked(decideRaise(a.confirmed, a.raises+a.tally.pending, len(a.votes)))
}
