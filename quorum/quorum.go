// Package quorum keeps locks on a majority of N independent Redis masters: the Redlock algorithm of Redis' page
// "Distributed Locks with Redis", with a fencing number in every token.
//
// Each master is reached over one connection, the lane, which carries all lock commands of this process in order.
// A release therefore travels behind the SET it undoes, and a deadline ends the waiting for an answer, never the
// lane.
package quorum

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
)

// Quorum asks the masters. All methods are safe for concurrent use.
type Quorum struct {
	opts  Options
	log   *zap.Logger
	enc   encoder
	lanes []*lane
	guard *guard
	late  lateGrants
	ears  ears
	pools pools

	askers    askers
	postponed postponed
	closing   atomic.Bool
	calls     atomic.Int64  // that are running, or postponed
	quiet     chan struct{} // holds a value when Close should look again
	cancel    context.CancelFunc
	stopped   chan struct{}  // closed by cancel
	wg        sync.WaitGroup // supervisors of the lanes, the one for late grants, the ears; Close waits
	closed    sync.Once
	closeIs   error // what Close answers, set once

	mu     sync.Mutex
	claims []string // run_id by lane, empty where the lane is not connected
}

var _ laneHost = (*Quorum)(nil)

// New checks o and starts a lane to every master. It returns at once, without having reached any; WaitReady waits. The
// error lists all faults of o. Whoever calls New calls Close.
func New(o Options) (*Quorum, error) {
	if err := o.validate(); err != nil {
		return nil, fmt.Errorf("quorum options: %w", err)
	}
	q := &Quorum{
		opts:    o,
		log:     o.Log,
		enc:     encoder{stateKey: ReservedPrefix + "state:" + o.KeyPrefix, fencing: o.Fencing, unguarded: o.Guard == GuardOff},
		quiet:   make(chan struct{}, 1),
		stopped: make(chan struct{}),
		claims:  make([]string, len(o.Masters)),
	}
	if q.log == nil {
		q.log = zap.NewNop()
	}
	q.guard = newGuard(q)
	q.late.init()
	q.pools.init(q)
	names := make([]string, len(o.Masters))
	for i := range o.Masters {
		names[i] = o.Masters[i].name()
	}
	if n := len(names); n%2 == 0 {
		q.log.Warn("an even number of masters tolerates no more failures than one less", zap.Int("masters", n))
	}
	ctx, cancel := context.WithCancel(context.Background())
	q.cancel = func() { cancel(); close(q.stopped) }
	for i := range o.Masters {
		q.lanes = append(q.lanes, &lane{
			index: i, opts: &q.opts.Masters[i], names: names, enc: &q.enc, maxTTL: o.MaxTTL, host: q, log: q.log, dice: o.dice,
			epoch: q.guard.start, first: make(chan struct{}), state: StateDown, reason: errConnecting, since: time.Now(),
		})
	}
	for _, l := range q.lanes {
		q.wg.Go(func() { l.run(ctx) })
	}
	q.wg.Go(func() { q.guard.run(ctx) })
	q.wg.Go(func() { q.checkLateGrants(ctx) })
	q.ears.init(q, func(f func(context.Context)) { q.wg.Go(func() { f(ctx) }) })
	return q, nil
}

// WaitReady returns nil when it is known of every master what it is good for: it votes, is in quarantine or has been refused, or could
// once not be reached; and the cause of ctx's end if that comes first. Masters tells which vote.
func (q *Quorum) WaitReady(ctx context.Context) error {
	for _, l := range q.lanes {
		select {
		case <-l.first:
		case <-q.stopped:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// Masters tells how the masters stand, in the order of Options.Masters.
func (q *Quorum) Masters() []MasterStatus {
	all := make([]MasterStatus, len(q.lanes))
	for i, l := range q.lanes {
		all[i] = l.masterStatus()
	}
	return all
}

// Close refuses new work, lets running calls end and the masters that are connected answer the releases they
// have been sent, at most until ctx ends; then it closes the lanes and waits for every goroutine. The error says that
// releases were left: their keys stay until their ttl. Later calls answer the same.
func (q *Quorum) Close(ctx context.Context) error {
	q.closed.Do(func() {
		q.closing.Store(true)
		for _, l := range q.lanes {
			l.beginClose()
		}
		left := q.waitSettled(ctx)
		q.cancel()
		q.ears.close()
		q.wg.Wait()
		if left > 0 {
			q.closeIs = fmt.Errorf("close: %d releases not answered: %w", left, context.Cause(ctx))
		}
	})
	return q.closeIs
}

// waitSettled waits until nothing runs and nothing is unanswered, and returns how many releases are when ctx ends
// first.
func (q *Quorum) waitSettled(ctx context.Context) int {
	for {
		running, left := q.calls.Load(), 0 // in this order: the last a call does may be a release
		for _, l := range q.lanes {
			left += l.unsettled()
		}
		if left == 0 && running == 0 {
			return 0
		}
		select {
		case <-q.quiet:
		case <-ctx.Done():
			return left + q.postponed.len()
		}
	}
}

// enter and leave stand around every call, so that Close can wait for it.
func (q *Quorum) enter() { q.calls.Add(1) }

func (q *Quorum) leave() {
	if q.calls.Add(-1) == 0 && q.closing.Load() {
		q.settled()
	}
}

// Busy reports whether a call is under way, most of whose time goes by waiting for masters. Safe for concurrent use, and cheap.
func (q *Quorum) Busy() bool { return q.calls.Load() > 0 }

func (q *Quorum) settled() {
	select {
	case q.quiet <- struct{}{}:
	default:
	}
}

func (q *Quorum) claim(runID string, lane int) (other int, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i, id := range q.claims {
		if id == runID && i != lane {
			return i, false
		}
	}
	q.claims[lane] = runID
	return lane, true
}

func (q *Quorum) unclaim(lane int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.claims[lane] = ""
}

func (q *Quorum) looked(lane int, v view) { q.guard.looked(lane, v) }
func (q *Quorum) lost(lane int)           { q.guard.lost(lane) }

func (q *Quorum) toppedUp(k debtKey, v voters, until time.Time) {
	q.late.add(k, v, until, time.Now())
}

// repeatAfter is how long a repetition waits for those who ask.
const repeatAfter = time.Millisecond

// releasedLate releases once more what was unlocked. Until now the token stood on one master at least, so that a check of a
// grant or top-up that came late elsewhere may have seen a lock that is held.
func (q *Quorum) releasedLate(k debtKey) {
	if q.askers.of(k.secret).Load() > 0 {
		time.AfterFunc(repeatAfter, func() { q.releasedLate(k) })
		return
	}
	q.releaseEverywhere(k, false)
}
