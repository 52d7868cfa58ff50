package quorum

import (
	"slices"
	"time"

	"lockproxy/quorum/internal/clock"
	"lockproxy/quorum/internal/master"
	"lockproxy/quorum/internal/wire"
)

// phase is how far an attempt is. Answers keep coming in all of them.
type phase uint8

const (
	asking  phase = iota // steps 2 and 3
	raising              // the second fencing round
	leased               // the caller has its token
	failed               // released everywhere
)

// attempt is one try to acquire a key: one token, one question to every master, and one more where
// the fence has to be confirmed. It lives until the last answer is in, which may be long after the
// caller has left. The mu of its acquisition guards it.
type attempt struct {
	acq   *acquisition
	token wire.TokenAt
	terms *wire.Terms     // of the acquire; nil for an exclusive lock of one key without waiting
	clock clock.Stopwatch // since step 1
	waits patience        // of the phase
	limit deadline        // when a master may no longer count
	took  time.Duration   // until the first round was decided; 0 before

	phase  phase
	votes  round  // the acquire
	raises round  // the second round; of phase raising
	fence  uint64 // F: the number in the token, from phase raising on
	voters uint64 // the masters whose grants made the lease; in phase leased
}

var _ master.Receiver = (*attempt)(nil)

// newAttempt draws a token and starts the clock (step 1).
func newAttempt(acq *acquisition) *attempt {
	o := &acq.q.opts
	a := &attempt{
		acq:   acq,
		token: wire.TokenAt{Key: acq.r.Key, Secret: o.Dice.Secret()},
		clock: clock.Start(),
		waits: acq.q.patienceFor(acq.r.TTL),
	}
	a.votes.begin(decideAcquire, len(o.Masters))
	a.terms, a.votes.slots = acq.terms(), acq.r.Mode == Limited
	a.limit.expire = a.expire
	return a
}

// op is an operation on the token.
func (a *attempt) op(kind wire.Kind) wire.Op {
	return wire.Op{Kind: kind, TokenAt: a.token, Slot: a.acq.slot, TTL: a.acq.r.TTL, Owner: a.acq.r.Owner, Fence: a.fence, Terms: a.terms}
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

// askLocked sends the acquire to all masters at once (step 2). A lane may have filled since the
// intake looked. A majority is asked all the same: otherwise healthy masters would make a
// NoQuorumError.
func (a *attempt) askLocked() (end ending) {
	q := a.acq.q
	q.deadlines.set(&a.limit, a.waits.first())
	op := a.op(wire.Acquire)
	var refused [maxMasters]error
	asked := 0
	for i, l := range q.lanes {
		if refused[i] = l.Ask(op, a); refused[i] == nil {
			asked++
		}
	}
	for i, l := range q.lanes {
		err := refused[i]
		if err == master.ErrFull && asked < majority(len(q.lanes)) {
			if err = l.AskFull(op, a); err == nil {
				asked++
			}
		}
		if err != nil && a.votes.take(i, answer{state: answerUnsent, err: err}, false) {
			end = a.decidedLocked()
		}
	}
	return end
}

// Answered implements master.Receiver.
func (a *attempt) Answered(lane int, op *wire.Op, got *master.Answer) {
	acq := a.acq
	acq.mu.Lock()
	end := a.takeLocked(lane, op.Kind, read(op.Kind, got), got.AskAgain)
	acq.mu.Unlock()
	acq.follow(end)
}

// takeLocked takes a master's answer, whenever it comes.
func (a *attempt) takeLocked(lane int, kind wire.Kind, said answer, askAgain bool) (end ending) {
	if kind == wire.Raise {
		if a.raises.take(lane, said, false) {
			return a.raisedLocked()
		}
		return end
	}
	// A number over the limit that one master counted may be a fault of its counter and its clock.
	if said.state == answerYes && said.fence <= wire.FenceLimit(a.clock.Begun()) {
		a.acq.q.floor.Raise(said.fence)
	}
	if said.state == answerYes && a.votes.slots && a.phase != asking && said.slot != a.votes.slot {
		said.state, said.elsewhere = answerNo, true
	}
	switch decided := a.votes.take(lane, said, askAgain); {
	case decided && a.phase == asking:
		return a.decidedLocked()
	case a.phase == asking:
		return end
	}
	if said.state.counts() {
		a.timeLateLocked(lane)
	}
	if a.phase == leased {
		a.lateLocked(lane)
	}
	return end
}

// timeLateLocked tells the lane if its vote was too late to count: it came long after the others had
// decided, or had failed to. It says nothing of a master if this process was late itself.
func (a *attempt) timeLateLocked(lane int) {
	q, took := a.acq.q, time.Since(a.clock.Begun())
	behind := took - a.took
	least := q.opts.MasterTimeout / 2
	switch {
	case q.intake.overloaded(): // the lanes are full, and masters are not equally fast
		least = 2 * q.opts.MasterTimeout
	case a.votes.verdict == noQuorum:
		least = 0
	}
	if behind > least && q.lateness.during(behind) == 0 {
		q.lanes[lane].Late(took, true)
	}
}

// expire is called when a master may no longer count. When the second round begins, the deadline of
// the first may run already.
func (a *attempt) expire() {
	acq := a.acq
	acq.mu.Lock()
	var end ending
	switch {
	case a.phase == asking && a.expireLocked(&a.votes):
		end = a.decidedLocked()
	case a.phase == raising && !time.Now().Before(a.waits.first()) && a.expireLocked(&a.raises):
		end = a.raisedLocked()
	}
	acq.mu.Unlock()
	acq.follow(end)
}

// expireLocked decides a round without the masters that no longer count. It reports whether this
// call decided; otherwise it sets the next deadline.
func (a *attempt) expireLocked(r *round) (decided bool) {
	silent, next := a.acq.q.silent(r, &a.waits)
	if decided = r.expire(silent); !decided && r.verdict == open {
		a.acq.q.deadlines.set(&a.limit, next)
	}
	return decided
}

// decidedLocked acts on the verdict of the first round (step 3).
func (a *attempt) decidedLocked() ending {
	a.took = time.Since(a.clock.Begun())
	switch a.votes.verdict {
	case won:
		a.leaveOtherSlotsLocked()
	case held, split:
		return a.failedLocked(&HeldError{Free: a.freeIn()})
	default:
		return a.failedLocked(a.acq.q.noQuorum(a.votes.answers, a.took))
	}
	var exact int
	a.fence, exact = highest(a.votes.answers)
	if a.acq.q.opts.Fencing && exact < majority(len(a.votes.answers)) {
		return a.raiseLocked()
	}
	return a.leaseLocked()
}

// leaveOtherSlotsLocked takes those who granted another slot than a majority out of the vote. Their
// slot is released with the others', or changed for the right one.
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

// highest is F, the largest number among the grants, and how many masters granted with it.
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

// raiseLocked begins the second fencing round. A master that granted with F has confirmed it;
// every other one that may have our value is told F, behind the acquire on its lane.
func (a *attempt) raiseLocked() (end ending) {
	a.phase = raising
	a.raises.begin(decideRaise, len(a.votes.answers))
	a.waits = a.acq.q.patienceFor(a.acq.r.TTL)
	a.acq.q.deadlines.set(&a.limit, a.waits.first())
	op := a.op(wire.Raise)
	decided := false
	for i, v := range a.votes.answers {
		said := answer{state: answerNo}
		switch {
		case v.state == answerYes && v.fence == a.fence:
			said.state = answerYes
		case v.state == answerYes || v.state == answerPending && !a.votes.slots: // or it may grant another slot
			if a.acq.q.lanes[i].Ask(op, a) == nil {
				continue
			}
		}
		decided = a.raises.take(i, said, false) || decided
	}
	if decided {
		return a.raisedLocked()
	}
	return end
}

// raisedLocked acts on the verdict of the second round.
func (a *attempt) raisedLocked() ending {
	switch {
	case a.phase != raising:
		return ending{}
	case a.raises.verdict == won:
		return a.leaseLocked()
	}
	return a.failedLocked(ErrFence)
}

// leaseLocked ends the attempt with a lease, if validity is left (step 4). Masters that gave no
// answer are topped up from here on.
func (a *attempt) leaseLocked() ending {
	ttl := a.acq.r.TTL
	// Taken after everything else that had to happen.
	left := validity(ttl, a.clock.Elapsed(), drift(ttl))
	if left <= 0 {
		return a.failedLocked(ErrLate)
	}
	a.phase = leased
	a.acq.q.deadlines.cancel(&a.limit)
	a.acq.q.floor.Raise(a.fence)
	a.voters = a.votes.yes()
	for i, v := range a.votes.answers {
		if v.state != answerPending && v.state != answerYes {
			a.lateLocked(i)
		}
	}
	lease := Lease{Token: Token{Fence: a.fence, Secret: a.token.Secret}, Validity: left, Slot: a.votes.slot}
	return ending{ended: true, lease: lease, verdict: won}
}

// lateLocked does what follows the answer of a master that has no part in the lease. A grant is
// checked, as the lock may have been released through another proxy by then, and its counter is
// raised. A master without an answer, or that granted another slot, is topped up. A refusal stands.
func (a *attempt) lateLocked(lane int) {
	l, v := a.acq.q.lanes[lane], a.votes.answers[lane]
	switch {
	case v.state == answerYes:
		owed := true
		for t := range a.tokens {
			if !l.Owes(t) {
				owed = false
				a.acq.q.checks.add(lane, t, a.voters, keptUntil(a.clock.Begun(), a.acq.r.TTL))
			}
		}
		if !owed && v.fence != a.fence && a.raises.answers == nil {
			_ = l.Ask(a.op(wire.Raise), nil)
		}
	case v.state != answerNo || v.elsewhere:
		for t := range a.tokens {
			l.TopUp(master.TopUp{
				TokenAt: t, Fence: a.fence, Owner: a.acq.r.Owner, Mode: a.acq.r.Mode, Slot: a.votes.slot,
				Voters: a.voters, Voted: keptUntil(a.clock.Begun(), a.acq.r.TTL),
				TTL: a.acq.r.TTL, Until: a.clock.Begun().Add(a.acq.r.TTL),
				Unsent: v.state == answerUnsent, MayLand: v.state == answerBroke, Lacks: v.elsewhere,
			})
		}
	}
}

// failedLocked ends the attempt without a lease.
func (a *attempt) failedLocked(err error) ending {
	a.failLocked()
	verdict := lost
	if a.votes.verdict != won {
		verdict = a.votes.verdict
	}
	return ending{ended: true, err: err, verdict: verdict}
}

// failLocked releases whatever landed, or still may (step 5). Nobody waits for the answers.
func (a *attempt) failLocked() {
	if a.phase == leased || a.phase == failed {
		return
	}
	a.phase = failed
	a.acq.q.deadlines.cancel(&a.limit)
	for i, v := range a.votes.answers {
		if v.state == answerUnsent {
			continue
		}
		landed := v.state != answerPending && v.state != answerBroke // its SET has been answered
		for t := range a.tokens {
			_ = a.acq.q.lanes[i].Release(wire.Op{Kind: wire.Release, TokenAt: t}, a.acq.r.TTL, landed, nil)
		}
	}
}

// freeIn is how soon a majority could grant without a release: the majority-th of the times after
// which each could, nearest first. Those that granted could at once, as they are being released.
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
