// Package quorum keeps locks on a majority of N independent Redis masters: the Redlock algorithm
// of Redis' page "Distributed Locks with Redis", with a fencing number in every token.
//
// A call asks all masters one thing, tallies what they say and decides as soon as it is certain: a
// round (round.go). Acquire takes one round for each attempt (attempt.go), and one more where the
// fence has to be confirmed. Rounds are driven by answers and deadlines; no goroutine waits for
// one.
//
// Each master is reached over one connection, the lane (internal/master). It carries all lock
// operations of this process, those of one token in order. Many make a packet, which one script
// runs (internal/wire). A release therefore travels behind the SET it undoes, and a deadline ends the waiting for an
// answer, never the lane. Which masters vote is decided in internal/admission; who is told of
// releases, in internal/notify. SAFETY.md has the argument.
package quorum

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"lockproxy/quorum/internal/admission"
	"lockproxy/quorum/internal/master"
	"lockproxy/quorum/internal/notify"
	"lockproxy/quorum/internal/wire"
	"lockproxy/stat"
)

// Quorum asks the masters. All methods are safe for concurrent use.
type Quorum struct {
	opts      Options
	log       *zap.Logger
	enc       wire.Encoder
	lanes     []*master.Lane
	guard     *guard
	floor     *admission.Floor
	deadlines deadlines
	intake    intake
	lateness  lateness
	pulse     deadline // makes the lateness of this process show while nothing else is due
	gather    deadline // of what waits for other answers of its lane: a Flush follows
	checks    checks
	releases  *notify.Subscriptions
	changes   *notify.Subscriptions // on connections of their own: a user of a master may lack the right

	scans   chan struct{} // holds a value for each Scan that runs
	closing atomic.Bool
	calls   atomic.Int64  // that are running
	quiet   chan struct{} // holds a value when Close should look again
	cancel  context.CancelFunc
	stopped chan struct{}  // closed by cancel
	wg      sync.WaitGroup // supervisors of the lanes; Close waits
	closed  sync.Once
	closeIs error // what Close answers, set once

	mu     sync.Mutex
	claims []string // run_id by lane, empty where the lane is not connected
}

var _ master.Host = (*Quorum)(nil)

// New checks o and starts a lane to every master. It returns at once, without having reached any;
// WaitReady waits. The error lists all faults of o. Whoever calls New calls Close.
func New(o Options) (*Quorum, error) {
	if err := o.validate(); err != nil {
		return nil, fmt.Errorf("quorum options: %w", err)
	}
	q := &Quorum{
		opts:    o,
		log:     o.Log,
		enc:     wire.Encoder{StateKey: ReservedPrefix + "state:" + o.KeyPrefix, Fencing: o.Fencing},
		floor:   new(admission.Floor),
		quiet:   make(chan struct{}, 1),
		stopped: make(chan struct{}),
		claims:  make([]string, len(o.Masters)),
		scans:   make(chan struct{}, MaxScans),
	}
	q.opts.MasterTimeout = max(o.MasterTimeout, minAttempt)
	q.opts.QueueTimeout = cmp.Or(o.QueueTimeout, defaultQueueTimeout)
	if q.log == nil {
		q.log = zap.NewNop()
	}
	q.lateness.log = q.log
	q.deadlines.after, q.deadlines.wasLate = q.Flush, q.lateness.note
	q.gather.expire = func() {}
	q.intake.q, q.intake.window, q.intake.look.expire = q, window{size: minWindow}, q.intake.start
	q.pulse.expire = func() { q.deadlines.set(&q.pulse, time.Now().Add(pulseEvery)) }
	q.checks.q, q.checks.waits = q, make(map[wire.TokenAt]*check)
	if n := len(o.Masters); n%2 == 0 {
		q.log.Warn("an even number of masters tolerates no more failures than one less", zap.Int("masters", n))
	}
	q.guard = newGuard(q)
	ctx, cancel := context.WithCancel(context.Background())
	q.cancel = func() { cancel(); close(q.stopped) }
	q.openLanes()
	q.intake.setRoomLocked()
	for _, l := range q.lanes {
		q.wg.Go(func() { l.Run(ctx) })
	}
	q.releases, q.changes = q.newSubscriptions(wire.ReleasedPrefix), q.newSubscriptions(wire.Changed)
	q.pulse.expire()
	return q, nil
}

func (q *Quorum) openLanes() {
	o, start := &q.opts, time.Now()
	names := make([]string, len(o.Masters))
	for i := range o.Masters {
		names[i] = o.Masters[i].NameOf()
	}
	for i := range o.Masters {
		q.lanes = append(q.lanes, master.New(master.Config{
			Index: i, Options: &o.Masters[i], Names: names, Encoder: &q.enc, KeyPrefix: o.KeyPrefix, MaxTTL: o.MaxTTL,
			Unguarded: o.Guard == GuardOff, Host: q, Log: q.log, Dice: o.Dice, Start: start, Adopt: o.Adopt,
		}))
	}
}

// WaitReady returns nil when every master has been evaluated: it votes, is in quarantine or has
// been refused, or could once not be reached; and the cause of ctx's end if that comes first.
// Masters tells which vote.
func (q *Quorum) WaitReady(ctx context.Context) error {
	for _, l := range q.lanes {
		select {
		case <-l.Ready():
		case <-q.stopped:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// Masters tells how the masters stand, in the order of Options.Masters.
func (q *Quorum) Masters() []stat.Master {
	all := make([]stat.Master, len(q.lanes))
	for i, l := range q.lanes {
		all[i] = l.Status()
	}
	return all
}

// Flush writes to the masters what Async methods have queued. It does not block. An event loop
// calls it at the end of a turn; the other methods flush by themselves.
func (q *Quorum) Flush() {
	again := time.Duration(0)
	for _, l := range q.lanes {
		if left := l.Flush(); left > 0 && (again == 0 || left < again) {
			again = left
		}
	}
	if again > 0 {
		q.deadlines.within(&q.gather, time.Now().Add(again))
	}
}

// Drain ends all acquires that wait until they can be sent, and those that would have to wait later,
// with ErrEnding.
func (q *Quorum) Drain() { q.intake.drain() }

// Close refuses new work, lets running calls end and the masters that are connected answer the
// releases they have been sent, at most until ctx ends; then it closes the lanes and waits for
// every goroutine. The error says that releases were left: their keys stay until their ttl. Later
// calls answer the same.
func (q *Quorum) Close(ctx context.Context) error {
	q.closed.Do(func() {
		q.closing.Store(true)
		for _, l := range q.lanes {
			l.BeginClose()
		}
		left := q.waitSettled(ctx)
		q.cancel()
		q.releases.Close()
		q.changes.Close()
		q.wg.Wait()
		q.deadlines.close()
		if left > 0 {
			q.closeIs = fmt.Errorf("close: %d releases not answered: %w", left, context.Cause(ctx))
		}
	})
	return q.closeIs
}

// waitSettled waits until nothing runs and nothing is unanswered, and returns how many releases
// are unanswered when ctx ends first.
func (q *Quorum) waitSettled(ctx context.Context) int {
	for {
		running, left := q.calls.Load(), 0 // in this order: the last a call does may be a release
		for _, l := range q.lanes {
			left += l.Unsettled()
		}
		if left == 0 && running == 0 {
			return 0
		}
		select {
		case <-q.quiet:
		case <-ctx.Done():
			return left
		}
	}
}

// enter and leave stand around every call, so that Close can wait for it.
func (q *Quorum) enter() { q.calls.Add(1) }

func (q *Quorum) leave() {
	if q.calls.Add(-1) == 0 && q.closing.Load() {
		q.Settled()
	}
}

// EndTurn implements master.Host.
func (q *Quorum) EndTurn() { q.Flush() }

// Settled implements master.Host.
func (q *Quorum) Settled() {
	select {
	case q.quiet <- struct{}{}:
	default:
	}
}

// Claim implements master.Host.
func (q *Quorum) Claim(runID string, lane int) (other int, ok bool) {
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

// Ponged implements master.Host. A PING that travels behind all that the masters can take says nothing
// of the master.
func (q *Quorum) Ponged(lane int, rtt time.Duration) {
	if rtt > q.opts.MasterTimeout && q.lateness.during(rtt) == 0 && !q.intake.overloaded() {
		q.lanes[lane].Late(rtt, false)
	}
}

// Unclaim implements master.Host.
func (q *Quorum) Unclaim(lane int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.claims[lane] = ""
}

// Observed implements master.Host.
func (q *Quorum) Observed(lane int, o admission.Observation) {
	q.guard.update(func() { q.guard.g.Observe(lane, o) })
}

// Lost implements master.Host.
func (q *Quorum) Lost(lane int, writes uint64) {
	q.guard.update(func() { q.guard.g.Lost(lane, writes) })
}

// Landed implements master.Host.
func (q *Quorum) Landed(lane int, t wire.TokenAt, voters uint64, voted time.Time) {
	q.checks.add(lane, t, voters, voted)
}

// ReleasedLate implements master.Host.
func (q *Quorum) ReleasedLate(t wire.TokenAt, missing uint64) { q.releaseAt(t, missing) }
