package quorum

import (
	"cmp"
	"sync"
	"time"
)

// acquisitionState is how far an acquisition is.
type acquisitionState uint8

const (
	stateWaiting    acquisitionState = iota // for the intake to give it a place
	stateVoting                             // every master was asked to grant the key: steps 2 and 3
	statePausing                            // after a split vote
	stateConfirming                         // a majority granted, and masters raise the fence to one number
	stateLeased                             // final: the caller gets the lease
	stateFailed                             // final: the caller gets an error, or has given up
)

// acquisition is one Acquire. Its attempts ask the masters, one attempt at a time. It is a state
// machine, which handleLocked runs:
//
//	state       event                                       next state
//
//	waiting     the intake gives a place                    voting, with a new attempt
//	            no place in time, Drain, the caller leaves  failed
//
//	voting      a majority granted with one number          leased, or failed if too late
//	            a majority granted, numbers differ          confirming
//	            a master wants to be asked again            voting, with a new attempt
//	            the vote was split                          pausing
//	            the key is held, or no majority answered    failed
//	            the caller leaves                           failed
//
//	confirming  a majority of all carries F                 leased, or failed if too late
//	            too few carry F                             failed
//	            the caller leaves                           failed
//
//	pausing     the pause ends                              waiting, before new acquisitions
//	            the caller leaves                           failed
//
// F is the largest number among the grants that count. "Too late" means that no validity is left
// (step 4), or less than was promised. An answer or a deadline that does not make the result
// certain changes no state. Drain reaches those that wait; what would wait later fails, too. An
// attempt that ends without a lease is released on every master (step 5). After a lease, masters
// that answer late are checked or topped up.
type acquisition struct {
	q        *Quorum
	r        Request  // with the full key, whole milliseconds, and TTL and Owner as masters get them
	counter  uint16   // the fencing counter of r.Key
	more     []string // the other full keys
	done     func(Lease, error)
	promise  time.Duration // of an adopted lock: the least validity; 0 otherwise
	patience time.Duration // until it is sent first; not positive: no limit
	waits    deadline      // in stateWaiting
	pause    deadline      // in statePausing

	mu       sync.Mutex // guards its attempts as well
	state    acquisitionState
	attempt  *attempt // the current one; nil if all have been released
	retries  int      // after split votes
	askAgain int      // attempts that a master asked for
	granted  [2]int   // slots of the last split vote, see slotsToTry

	older, newer *acquisition // neighbours in the intake; guarded by the intake's mu
	linked       bool         // in the intake; guarded by the intake's mu
}

// eventKind is the kind of an event.
type eventKind uint8

const (
	eventPlace    eventKind = iota // the intake gives a place
	eventTimeout                   // the intake gave no place in time
	eventDrain                     // Quorum.Drain was called
	eventVote                      // a master answered the acquire
	eventConfirm                   // a master answered the raise
	eventDeadline                  // some masters may no longer count
	eventPaused                    // the pause has ended
	eventWithdraw                  // the caller leaves unless an attempt is under way
	eventGiveUp                    // the caller leaves
)

// event is something that an acquisition has to react to.
type event struct {
	kind    eventKind
	attempt *attempt // of eventVote, eventConfirm and eventDeadline

	// Of eventVote and eventConfirm: which master gave which answer, and whether another attempt
	// may get a better one at once.
	lane     int
	said     answer
	askAgain bool
}

// effects are the actions that follow a transition. They call other code, so they need the mutex
// released.
type effects struct {
	enter  bool // ask the intake for a place again
	report bool // call done with lease and err
	lease  Lease
	err    error
	end    bool     // the acquisition has ended: Close need not wait for it
	vacate bool     // give the place in the intake back
	ran    *attempt // of vacate: the attempt that had the place; nil if it must not be measured
}

// handle changes the state as an event demands, and carries out the effects. It reports whether
// the acquisition ended by this event.
func (a *acquisition) handle(e *event) (ended bool) {
	a.mu.Lock()
	then := a.handleLocked(e)
	a.mu.Unlock()
	a.perform(&then)
	return then.end
}

// perform carries out effects, without the mutex.
func (a *acquisition) perform(then *effects) {
	if then.report {
		a.done(then.lease, then.err)
	}
	if then.end {
		a.q.calls.leave()
	}
	if then.vacate {
		a.q.intake.leave(then.ran)
	}
	if then.enter {
		a.enter(true)
	}
}

// askedTTL returns the ttl that the caller asked for.
func (a *acquisition) askedTTL() time.Duration { return cmp.Or(a.promise, a.r.TTL) }

// enter asks the intake for a place. With again it asked before, and goes before all that did not.
func (a *acquisition) enter(again bool) {
	switch placed, ending := a.q.intake.enter(a, again); {
	case placed:
		a.handle(&event{kind: eventPlace})
	case ending:
		a.handle(&event{kind: eventDrain})
	}
}

// handleLocked is the state machine.
func (a *acquisition) handleLocked(e *event) effects {
	if e.attempt != a.attempt && e.attempt != nil { // an attempt that has been released
		if e.kind == eventVote {
			e.attempt.lateVoteLocked(e)
		}
		return effects{}
	}
	switch a.state {
	case stateWaiting, statePausing:
		return a.handleUnsentLocked(e)
	case stateVoting:
		return a.handleVotingLocked(e)
	case stateConfirming:
		return a.handleConfirmingLocked(e)
	case stateLeased:
		if e.kind == eventVote {
			a.attempt.lateVoteLocked(e)
			a.attempt.completeLocked(e.lane)
		}
	case stateFailed:
		if e.kind == eventPlace { // it ended while the intake gave the place
			return effects{vacate: true}
		}
	}
	return effects{}
}

// handleUnsentLocked handles an event in stateWaiting and statePausing: no attempt is under way.
func (a *acquisition) handleUnsentLocked(e *event) effects {
	switch e.kind {
	case eventPlace:
		return a.attemptLocked()
	case eventPaused:
		if a.state == statePausing {
			a.state = stateWaiting
			return effects{enter: true}
		}
	case eventTimeout:
		return a.endUnsentLocked(effects{report: true, err: &BusyError{Waiting: a.q.intake.remove(a, true)}})
	case eventDrain:
		a.q.intake.remove(a, false)
		return a.endUnsentLocked(effects{report: true, err: ErrEnding})
	case eventWithdraw, eventGiveUp:
		a.q.intake.remove(a, false)
		return a.endUnsentLocked(effects{})
	}
	return effects{}
}

// handleVotingLocked handles an event in stateVoting.
func (a *acquisition) handleVotingLocked(e *event) effects {
	t, decided := a.attempt, false
	switch e.kind {
	case eventVote:
		decided = t.voteLocked(e)
	case eventDeadline:
		decided = t.expireLocked(&t.votes)
	case eventGiveUp:
		return a.giveUpLocked()
	}
	if decided {
		return a.votedLocked()
	}
	return effects{}
}

// handleConfirmingLocked handles an event in stateConfirming. The deadline may still be that of
// the first round, which has begun to run.
func (a *acquisition) handleConfirmingLocked(e *event) effects {
	t := a.attempt
	switch e.kind {
	case eventVote:
		t.lateVoteLocked(e)
	case eventConfirm:
		if t.raises.take(e.lane, e.said, false) {
			return a.confirmedLocked()
		}
	case eventDeadline:
		if !time.Now().Before(t.waits.first()) && t.expireLocked(&t.raises) {
			return a.confirmedLocked()
		}
	case eventGiveUp:
		return a.giveUpLocked()
	}
	return effects{}
}

// attemptLocked begins an attempt.
func (a *acquisition) attemptLocked() effects {
	a.state, a.attempt = stateVoting, newAttempt(a)
	if a.attempt.askLocked() {
		return a.votedLocked()
	}
	return effects{}
}

// votedLocked acts on the verdict of the first round (step 3).
func (a *acquisition) votedLocked() effects {
	t := a.attempt
	t.took = time.Since(t.clock.Begun())
	switch v := t.votes.verdict; {
	case v == won:
		if t.chooseLocked() {
			return a.leaseLocked()
		}
		a.state = stateConfirming
		if t.raiseLocked() {
			return a.confirmedLocked()
		}
		return effects{}
	case v == again && a.askAgain < maxAskAgain:
		a.askAgain++
		a.releaseLocked()
		return a.attemptLocked()
	case v == split && a.retries < maxRetries:
		a.granted = t.votes.grantedSlots()
		a.releaseLocked()
		wait := retryDelay(time.Since(t.clock.Begun()), a.retries, a.q.opts.Dice.Unit())
		a.state = statePausing
		a.retries++
		a.pause.expire = func() { a.handle(&event{kind: eventPaused}) }
		a.q.fleet.deadlines.set(&a.pause, time.Now().Add(wait))
		return effects{vacate: true, ran: t}
	case v == held, v == split:
		return a.failLocked(&HeldError{Free: t.freeIn()})
	}
	if a.q.fleet.slow(&t.votes, t.took) {
		return a.failLocked(&BusyError{Waiting: a.q.intake.waitingNow()})
	}
	return a.failLocked(a.q.fleet.noQuorum(t.votes.answers, t.took))
}

// confirmedLocked acts on the verdict of the second round.
func (a *acquisition) confirmedLocked() effects {
	if a.attempt.raises.verdict == won {
		return a.leaseLocked()
	}
	return a.failLocked(ErrFence)
}

// leaseLocked ends the acquisition with a lease, if validity is left (step 4).
func (a *acquisition) leaseLocked() effects {
	t, ttl := a.attempt, a.r.TTL
	// Taken after everything else that had to happen.
	left := validity(ttl, t.clock.Elapsed(), drift(ttl))
	if left <= 0 || left < a.promise {
		return a.failLocked(ErrLate)
	}
	a.state = stateLeased
	if a.promise > 0 {
		a.q.values.secrets.put(a.r.Key, a.r.Value, t.token.Secret)
	}
	t.leasedLocked()
	lease := Lease{Token: Token{Fence: t.fence, Secret: t.token.Secret}, Validity: left, Slot: t.votes.slot}
	return effects{report: true, lease: lease, end: true, vacate: true, ran: t}
}

// failLocked ends the acquisition with an error, and its attempt with it.
func (a *acquisition) failLocked(err error) effects {
	t := a.attempt
	a.state = stateFailed
	a.releaseLocked()
	return effects{report: true, err: err, end: true, vacate: true, ran: t}
}

// giveUpLocked ends the acquisition for a caller that leaves during an attempt.
func (a *acquisition) giveUpLocked() effects {
	a.state = stateFailed
	a.releaseLocked()
	return effects{end: true, vacate: true}
}

// endUnsentLocked ends the acquisition while no attempt is under way.
func (a *acquisition) endUnsentLocked(then effects) effects {
	a.state = stateFailed
	a.q.fleet.deadlines.cancel(&a.pause)
	then.end = true
	return then
}

// releaseLocked ends the attempt without a lease (step 5).
func (a *acquisition) releaseLocked() {
	t := a.attempt
	a.attempt = nil
	t.releaseLocked()
}
