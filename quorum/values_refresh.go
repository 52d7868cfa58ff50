package quorum

import (
	"slices"
	"time"

	"lockproxy/quorum/internal/clock"
	"lockproxy/quorum/internal/master"
	"lockproxy/quorum/internal/wire"
)

// refresh sets the end of an adopted lock anew: promise from now, later or earlier than before.
// Its first round is an extension: masters raise the end of the lock, and a master on which it
// ends later names that end. If these are needed for a majority, a second round asks them to
// replace just that end by an earlier one. Both rounds share the time of an attempt, and the
// validity counts from the first.
//
// The masters name these ends before the result of the refresh, and the low bits of an end count
// its changes. So a shortening has no effect on a refresh that begins after the result, even if
// that is faster. A master that names its end after the result is left alone, and a lane never
// repeats a refresh that a master may have carried out.
type refresh struct {
	key     string // without prefix
	secret  string
	promise time.Duration // as wholeTTL returns it
	granted bool          // the secret is known to be of a lock that was granted
	raises  bool          // it never shortens: the result may be an overtakenError

	*broadcast // the first round
	q          *Quorum
	clock      clock.Stopwatch // since the first round began
	done       func(held bool, err error)
	raised     uint64     // masters that raised, if these are a majority; guarded by mu
	best       answer     // the fence and the owner that they have; guarded by mu
	second     *broadcast // the second round; guarded by mu
}

// overtakenError says that too few masters raised the end, because it is later on others.
type overtakenError struct{ *NoQuorumError }

// refresh sends the first round, and calls done with the result of the last.
func (q *Quorum) refresh(of refresh, done func(held bool, err error)) {
	q.calls.enter()
	r := &of
	r.q, r.clock, r.done = q, clock.Start(), done
	waits := q.fleet.patienceFor(r.promise)
	waits.most = max(waits.most, waits.least) // a lock may be shortened to less than an answer takes
	token := q.fleet.tokenAt(r.key, Token{Secret: r.secret})
	op := wire.Op{Kind: wire.Refresh, TokenAt: token, TTL: Life(r.promise)}
	r.broadcast = q.fleet.newBroadcast(op, decideHeld, waits)
	if r.raises {
		r.round.rule = r.decideRaises
	}
	r.decided, r.later = r.decideFirst, r.answeredLate
	r.askOp(allMasters)
}

// decideRaises is the rule of a refresh that never shortens: a later end is no vote.
func (r *refresh) decideRaises(t tally) verdict {
	switch n, maj := len(r.raisedLocked()), majority(t.n()); {
	case n >= maj:
		return won
	case t.yes+t.none+t.pending < maj:
		return lost
	case t.pending > 0:
		return open
	case n < t.yes:
		return again
	}
	return noQuorum
}

// raisedLocked returns the masters that raised the end.
func (r *refresh) raisedLocked() (lanes []int) {
	for i, a := range r.round.answers {
		if a.state == answerYes && a.longer == 0 {
			lanes = append(lanes, i)
		}
	}
	return lanes
}

// decideFirst acts on the verdict of the first round.
func (r *refresh) decideFirst(x *broadcast) {
	x.mu.Lock()
	v, raised := x.round.verdict, r.raisedLocked()
	if v == won && len(raised) < majority(len(x.round.answers)) {
		r.second = r.newSecond()
		first := slices.Clone(x.round.answers)
		x.mu.Unlock()
		r.shorten(first)
		return
	}
	if v == won {
		for _, i := range raised {
			r.raised |= 1 << i
			a := x.round.answers[i]
			if a.fence >= r.best.fence {
				r.best = a
			}
			if a.fence <= wire.FenceLimit(r.waits.begun) {
				r.q.floor.Raise(a.fence)
			}
		}
		for i := range x.round.answers {
			r.refillLocked(i)
		}
	}
	x.mu.Unlock()
	r.end(x, v)
}

// refillLocked sets the lock on a master that has just answered that it lacks the token, after a
// majority has raised the end. Top-ups are not kept for later: another proxy may shorten the lock
// meanwhile, and the next refresh asks the master again.
func (r *refresh) refillLocked(lane int) {
	if r.round.answers[lane].state == answerNo && r.clock.Elapsed() <= r.waits.most {
		r.fleet.lanes[lane].TopUp(master.TopUp{TokenAt: r.op.TokenAt, Fence: r.best.fence, Owner: r.best.owner,
			Voters: r.raised, TTL: r.op.TTL, Until: r.waits.begun.Add(r.op.TTL), Since: r.clock, Lacks: true, Once: true})
	}
}

// secondSpare is what the second round leaves of the time that Life allows for an attempt. Without
// it, one that waits for a silent master to the end would always be a little too late.
const secondSpare = 5 * time.Millisecond

// newSecond returns the second round, which has not been sent yet. It waits for all masters that
// make progress: one that keeps the later end would refuse the key long after the others.
func (r *refresh) newSecond() *broadcast {
	waits := r.waits
	if a := wire.AttemptTime(r.promise); waits.most <= a { // else it is too late in any case
		waits.most -= min(a/8, secondSpare)
	}
	rule := func(t tally) verdict {
		if t.pending > 0 {
			return open
		}
		return decideHeld(t)
	}
	second := r.fleet.newBroadcast(r.op, rule, waits)
	second.decided = func(x *broadcast) {
		x.mu.Lock()
		v := x.round.verdict
		x.mu.Unlock()
		r.end(x, v)
	}
	return second
}

// shorten begins the second round, after the answers to the first one. Masters that have not
// answered that are still waited for.
func (r *refresh) shorten(answers []answer) {
	first, last := time.Now().Add(r.waits.least), r.waits.begun.Add(r.second.waits.most)
	if last.Before(first) {
		first = last
	}
	r.fleet.deadlines.set(&r.second.limit, first)
	for i, a := range answers {
		if a.state != answerPending {
			r.askAgain(i, a)
		}
	}
}

// answeredLate handles an answer to the first round that comes after its verdict.
func (r *refresh) answeredLate(x *broadcast, lane int) {
	x.mu.Lock()
	a, second := x.round.answers[lane], r.second
	if r.raised != 0 {
		r.refillLocked(lane)
	}
	x.mu.Unlock()
	if second == nil {
		return
	}
	second.mu.Lock()
	inTime := second.round.verdict == open
	second.mu.Unlock()
	if inTime {
		r.askAgain(lane, a)
	}
}

// askAgain asks a master that named its end to replace that. The new answer takes the place of the
// first one, a. It counts also if the end has changed meanwhile: the master holds the lock for
// longer.
func (r *refresh) askAgain(lane int, a answer) {
	if a.state == answerYes && a.longer != 0 {
		op := r.second.op
		op.End = a.longer
		err := r.fleet.lanes[lane].Ask(op, r.second)
		if err == nil {
			return
		}
		a = answer{state: answerUnsent, err: err}
	}
	r.second.take(lane, a)
}

// end passes on the result of the last round, x.
func (r *refresh) end(x *broadcast, v verdict) {
	switch {
	case v == won && validity(r.op.TTL, r.clock.Elapsed(), drift(r.op.TTL)) < r.promise:
		r.done(false, ErrLate)
	case v == won:
		r.done(true, nil)
	case v == lost:
		if r.granted {
			r.q.checks.fade(r.op.TokenAt)
		}
		r.done(false, nil)
	default:
		x.mu.Lock()
		err := r.fleet.noQuorum(x.round.answers, time.Since(x.waits.begun))
		x.mu.Unlock()
		if v == again {
			r.done(false, overtakenError{err})
		} else {
			r.done(false, err)
		}
	}
	r.q.calls.leave()
}
