package quorum

import (
	"slices"
	"time"

	"lockproxy/quorum/internal/clock"
	"lockproxy/quorum/internal/master"
	"lockproxy/quorum/internal/wire"
)

// attempt is one try to acquire a key: one token, a round of acquires, and a round of raises if
// the fence has to be confirmed. It lives until the last answer is in, which may be long after
// the caller has left. Its acquisition holds its state, and guards it with its mu.
type attempt struct {
	acq   *acquisition
	token wire.TokenAt
	terms *wire.Terms     // of the acquire; nil for an exclusive lock of one key without waiting
	clock clock.Stopwatch // since step 1
	waits patience        // of the round
	limit deadline        // when some masters may no longer count
	took  time.Duration   // until the first round was decided; 0 before

	votes  round  // of acquires
	raises round  // of raises; in stateConfirming and after
	fence  uint64 // F: the number in the token, from stateConfirming or stateLeased on
	voters uint64 // the masters whose grants made the lease; in stateLeased
}

var _ master.Receiver = (*attempt)(nil)

// newAttempt draws a token and starts the clock (step 1).
func newAttempt(acq *acquisition) *attempt {
	o := &acq.q.opts
	a := &attempt{
		acq:   acq,
		token: wire.TokenAt{Key: acq.r.Key, Secret: o.Dice.Secret()},
		clock: clock.Start(),
		waits: acq.q.fleet.patienceFor(acq.askedTTL()),
	}
	a.votes.begin(decideAcquire, len(o.Masters))
	a.terms, a.votes.slots = acq.terms(), acq.r.Mode == Limited
	a.limit.expire = a.expire
	return a
}

// op returns an operation on the token.
func (a *attempt) op(kind wire.OpKind) wire.Op {
	return wire.Op{Kind: kind, TokenAt: a.token, Counter: a.acq.counter, TTL: a.acq.r.TTL, Owner: a.acq.r.Owner,
		Begun: a.clock.Begun().Sub(a.acq.q.fleet.epoch), Fence: a.fence, Terms: a.terms}
}

// tokens yields the token at each of its keys.
func (a *attempt) tokens(yield func(wire.TokenAt) bool) {
	if !yield(a.token) {
		return
	}
	for _, key := range a.acq.more {
		if !yield(wire.TokenAt{Key: key, Secret: a.token.Secret}) {
			return
		}
	}
}

// askLocked sends the acquire to all masters at once (step 2), and reports whether that decided.
// A lane may have filled since the intake looked. A majority is asked all the same: otherwise
// healthy masters would make a NoQuorumError.
func (a *attempt) askLocked() (decided bool) {
	q := a.acq.q
	q.fleet.deadlines.set(&a.limit, a.waits.first())
	op := a.op(wire.Acquire)
	var refused [maxMasters]error
	asked := 0
	for i, l := range q.fleet.lanes {
		if refused[i] = l.Ask(op, a); refused[i] == nil {
			asked++
		}
	}
	for i, l := range q.fleet.lanes {
		err := refused[i]
		if err == master.ErrFull && asked < majority(len(q.fleet.lanes)) {
			if err = l.AskFull(op, a); err == nil {
				asked++
			}
		}
		if err != nil {
			decided = a.votes.take(i, answer{state: answerUnsent, err: err}, false) || decided
		}
	}
	return decided
}

// Answered implements master.Receiver.
func (a *attempt) Answered(lane int, op *wire.Op, got *master.Answer) {
	kind := eventVote
	if op.Kind == wire.Raise {
		kind = eventConfirm
	}
	a.acq.handle(&event{kind: kind, attempt: a, lane: lane, said: read(op.Kind, got), askAgain: got.AskAgain})
}

// expire is called at the deadline.
func (a *attempt) expire() { a.acq.handle(&event{kind: eventDeadline, attempt: a}) }

// voteLocked counts an answer to the acquire, and reports whether it decided.
func (a *attempt) voteLocked(e *event) (decided bool) {
	a.raiseFloor(&e.said)
	return a.votes.take(e.lane, e.said, e.askAgain)
}

// lateVoteLocked counts an answer to the acquire that comes after the decision.
func (a *attempt) lateVoteLocked(e *event) {
	said := e.said
	a.raiseFloor(&said)
	if said.state == answerYes && a.votes.slots && said.slot != a.votes.slot {
		said.state, said.elsewhere = answerNo, true
	}
	a.votes.take(e.lane, said, e.askAgain)
	if said.state.counts() {
		a.timeLateLocked(e.lane)
	}
}

// raiseFloor raises the floor of counters to the number of a grant. A number over the limit that
// one master counted may be a fault of its counter and its clock.
func (a *attempt) raiseFloor(said *answer) {
	if said.state == answerYes && said.fence <= wire.FenceLimit(a.clock.Begun()) {
		a.acq.q.floor.Raise(said.fence)
	}
}

// timeLateLocked reports a vote to its lane as late if it came long after the decision, or after
// the attempt had failed for lack of votes. It reports no master while this process was late
// itself.
func (a *attempt) timeLateLocked(lane int) {
	q, took := a.acq.q, time.Since(a.clock.Begun())
	delay := took - a.took
	least := q.opts.MasterTimeout / 2
	switch {
	case q.intake.overloaded(): // the lanes are full, and masters are not equally fast
		least = 2 * q.opts.MasterTimeout
	case a.votes.verdict == noQuorum:
		least = 0
	}
	if delay > least && q.fleet.lateness.during(delay) == 0 {
		q.fleet.lanes[lane].NoteLate(took, true)
	}
}

// expireLocked decides a round without the masters that no longer count. It reports whether this
// call decided; otherwise it sets the next deadline.
func (a *attempt) expireLocked(r *round) (decided bool) {
	silent, next := a.acq.q.fleet.silent(r, &a.waits)
	if decided = r.expire(silent); !decided && r.verdict == open {
		a.acq.q.fleet.deadlines.set(&a.limit, next)
	}
	return decided
}

// chooseLocked makes the fence of the largest number among the grants that count, and reports
// whether a majority granted with this number: otherwise it has to be confirmed. With slots, only
// the grants of the majority's slot count.
func (a *attempt) chooseLocked() (confirmed bool) {
	a.leaveOtherSlotsLocked()
	var exact int
	a.fence, exact = highest(a.votes.answers)
	return !a.acq.q.opts.Fencing || exact >= majority(len(a.votes.answers))
}

// leaveOtherSlotsLocked excludes masters that granted another slot than a majority from the vote.
// A release or a top-up corrects that slot later.
func (a *attempt) leaveOtherSlotsLocked() {
	if !a.votes.slots {
		return
	}
	for i := range a.votes.answers {
		if v := &a.votes.answers[i]; v.state == answerYes && v.slot != a.votes.slot {
			v.state, v.elsewhere = answerNo, true
		}
	}
}

// highest returns F, the largest number among the grants, and how many masters granted with it.
func highest(votes []answer) (fence uint64, exact int) {
	for _, v := range votes {
		switch {
		case v.state != answerYes || v.fence < fence:
		case v.fence == fence:
			exact++
		default:
			fence, exact = v.fence, 1
		}
	}
	return fence, exact
}

// raiseLocked begins the second fencing round, and reports whether it is decided already. A master
// that granted with F has confirmed it. Every other one that may have our value gets a raise to F,
// after the acquire on its lane.
func (a *attempt) raiseLocked() (decided bool) {
	a.raises.begin(decideRaise, len(a.votes.answers))
	a.waits = a.acq.q.fleet.patienceFor(a.acq.askedTTL())
	a.acq.q.fleet.deadlines.set(&a.limit, a.waits.first())
	op := a.op(wire.Raise)
	for i, v := range a.votes.answers {
		said := answer{state: answerNo}
		switch {
		case v.state == answerYes && v.fence == a.fence:
			said.state = answerYes
		case v.state == answerYes || v.state == answerPending && !a.votes.slots:
			// With slots, a master that is pending may grant another slot.
			if a.acq.q.fleet.lanes[i].Ask(op, a) == nil {
				continue
			}
		}
		decided = a.raises.take(i, said, false) || decided
	}
	return decided
}

// leasedLocked ends the attempt with a lease. It completes the lock at masters whose answers are
// no grants; those that still owe one follow when they answer.
func (a *attempt) leasedLocked() {
	a.acq.q.fleet.deadlines.cancel(&a.limit)
	a.acq.q.floor.Raise(a.fence)
	a.voters = a.votes.yes()
	for i, v := range a.votes.answers {
		if v.state != answerPending && v.state != answerYes {
			a.completeLocked(i)
		}
	}
}

// completeLocked completes the lease on a master that has no part in it, once it has answered. A
// grant is checked, because another proxy may have released the lock by then, and its counter is
// raised. A master without an answer, or that granted another slot, is topped up, except for an
// adopted lock: another proxy may shorten that before the top-up comes. A master that refused is
// left alone.
func (a *attempt) completeLocked(lane int) {
	l, v := a.acq.q.fleet.lanes[lane], a.votes.answers[lane]
	switch {
	case v.state == answerYes:
		releasing := true
		for t := range a.tokens {
			if !l.Releasing(t) {
				releasing = false
				a.acq.q.checks.add(lane, t, a.voters, a.votersKeep())
			}
		}
		if !releasing && v.fence != a.fence && a.raises.answers == nil {
			_ = l.Ask(a.op(wire.Raise), nil)
		}
	case a.acq.promise > 0: // see refresh.refillLocked
	case v.state != answerNo || v.elsewhere:
		for t := range a.tokens {
			l.TopUp(master.TopUp{
				TokenAt: t, Fence: a.fence, Owner: a.acq.r.Owner, Mode: a.acq.r.Mode, Slot: a.votes.slot,
				Voters: a.voters, Voted: keptUntil(a.clock.Begun(), a.acq.r.TTL),
				TTL: a.acq.r.TTL, Until: a.clock.Begun().Add(a.acq.r.TTL), Since: a.clock,
				Unsent: v.state == answerUnsent, MayLand: v.state == answerBroke, Lacks: v.elsewhere,
			})
		}
	}
}

// votersKeep returns until when the voters certainly keep their grants unless the token is
// released; zero if that is not known: an adopted lock may be shortened at any time, through any
// proxy.
func (a *attempt) votersKeep() time.Time {
	if a.acq.promise > 0 {
		return time.Time{}
	}
	return keptUntil(a.clock.Begun(), a.acq.r.TTL)
}

// releaseLocked ends the attempt without a lease: it releases the token at every master that the
// acquire reached, or still may reach (step 5). It does not wait for the answers.
func (a *attempt) releaseLocked() {
	a.acq.q.fleet.deadlines.cancel(&a.limit)
	for i, v := range a.votes.answers {
		if v.state == answerUnsent {
			continue
		}
		landed := v.state != answerPending && v.state != answerBroke // its SET has been answered
		for t := range a.tokens {
			_ = a.acq.q.fleet.lanes[i].Release(wire.Op{Kind: wire.Release, TokenAt: t}, a.acq.r.TTL, landed, nil)
		}
	}
}

// freeIn returns how soon a majority could grant without a release: the majority-th shortest of
// the times after which each master could. A master that granted could at once: it gets a release
// now.
func (a *attempt) freeIn() time.Duration {
	in := make([]time.Duration, 0, len(a.votes.answers))
	for _, v := range a.votes.answers {
		if v.state == answerYes {
			in = append(in, 0)
		} else if v.state == answerNo && v.left >= 0 {
			in = append(in, v.left)
		}
	}
	maj := majority(len(a.votes.answers))
	if len(in) < maj {
		return -1
	}
	slices.Sort(in)
	return in[maj-1]
}
