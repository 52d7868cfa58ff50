package quorum

import (
	"context"
	"slices"
	"sync"

	"lockproxy/quorum/internal/master"
	"lockproxy/quorum/internal/wire"
)

// broadcast sends one operation to masters and tallies the answers in one round. Acquires, raises,
// top-ups, fades and the releases of failed attempts go without. It lives until the last answer is
// in, which may be long after its caller has the result.
type broadcast struct {
	fleet   *fleet
	op      wire.Op
	waits   patience
	limit   deadline
	decided func(*broadcast)      // called once, when the verdict is certain; without locks
	later   func(*broadcast, int) // called for each answer after that; without locks. May be nil

	mu    sync.Mutex
	round round
}

var _ master.Receiver = (*broadcast)(nil)

// newBroadcast returns a broadcast that has not been sent yet. The caller may set the rule later.
func (f *fleet) newBroadcast(op wire.Op, rule func(tally) verdict, waits patience) *broadcast {
	x := &broadcast{fleet: f, op: op, waits: waits}
	x.round.begin(rule, len(f.lanes))
	x.limit.expire = x.expire
	return x
}

// allMasters is the set of all masters.
const allMasters = ^uint64(0)

// ask asks a set of masters through send, and sets the deadline. The caller flushes.
func (x *broadcast) ask(masters uint64, send func(l *master.Lane) error) {
	x.fleet.deadlines.set(&x.limit, x.waits.first())
	for i, l := range x.fleet.lanes {
		if masters&(1<<i) == 0 {
			x.take(i, answer{state: answerUnsent})
		} else if err := send(l); err != nil {
			x.take(i, answer{state: answerUnsent, err: err})
		}
	}
}

// askOp asks those of a set of masters whose lanes take the operation.
func (x *broadcast) askOp(masters uint64) {
	op := x.op // an extension changes it when the first masters have answered
	x.ask(masters, func(l *master.Lane) error { return l.Ask(op, x) })
}

// Answered implements master.Receiver.
func (x *broadcast) Answered(lane int, op *wire.Op, a *master.Answer) { x.take(lane, read(op.Kind, a)) }

func (x *broadcast) take(lane int, a answer) {
	x.mu.Lock()
	decided := x.round.take(lane, a, false)
	after := !decided && x.round.verdict != open && x.later != nil
	x.mu.Unlock()
	switch {
	case decided:
		x.fleet.deadlines.cancel(&x.limit)
		x.decided(x)
	case after:
		x.later(x, lane)
	}
}

func (x *broadcast) expire() {
	x.mu.Lock()
	if x.round.verdict != open {
		x.mu.Unlock()
		return
	}
	silent, next := x.fleet.silent(&x.round, &x.waits)
	decided := x.round.expire(silent)
	if !decided {
		x.fleet.deadlines.set(&x.limit, next)
	}
	x.mu.Unlock()
	if decided {
		x.decided(x)
	}
}

// survey asks every master one thing about a key and waits for all of them that make progress, a
// second at most. The round is the caller's.
func (f *fleet) survey(ctx context.Context, kind wire.OpKind, key string) (r round, err error) {
	if ctx.Err() != nil {
		return r, context.Cause(ctx)
	}
	done := make(chan round, 1)
	x := f.newBroadcast(wire.Op{Kind: kind, TokenAt: f.tokenAt(key, Token{})}, decideAll, f.patienceFor(f.opts.MaxTTL))
	x.decided = func(x *broadcast) {
		x.mu.Lock()
		defer x.mu.Unlock()
		r := x.round
		r.answers = slices.Clone(r.answers)
		done <- r
	}
	x.askOp(allMasters)
	f.flush()
	select {
	case r = <-done:
		return r, nil
	case <-ctx.Done():
		return r, context.Cause(ctx)
	}
}
