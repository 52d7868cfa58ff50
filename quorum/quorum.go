// Package quorum keeps locks on a majority of N independent Redis masters: the Redlock algorithm
// of Redis' page "Distributed Locks with Redis", with a fencing number in every token.
//
// [Quorum.Acquire], [Quorum.Extend] and [Quorum.Release] obtain, prolong and end a lock; their
// Async forms do the same without blocking. Each sends one operation to all masters, tallies the
// answers and decides as soon as the result is certain: a round (round.go). Acquire takes one
// round for each attempt, and one more if the fence has to be confirmed: acquisition.go has its
// state machine. Answers and deadlines drive the rounds; no goroutine waits for one.
//
// Each master is reached over one connection, the lane (internal/master). It carries all lock
// operations of this process, and keeps the order of operations on one token. A script runs many
// of them as one packet (internal/wire). A release therefore travels after the SET that it
// undoes, and a deadline ends the waiting for an answer, never the lane. Package
// internal/admission decides which masters vote, and internal/notify delivers the news of
// releases. SAFETY.md has the argument.
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

// Quorum holds locks on a majority of the masters. All methods are safe for concurrent use.
type Quorum struct {
	opts      Options
	log       *zap.Logger
	enc       wire.Encoder
	lanes     []*master.Lane
	members   *membership
	floor     *admission.Floor
	deadlines deadlines
	intake    intake
	lateness  lateness
	pulse     deadline // shows the lateness of this process while no other deadline is due
	gather    deadline // a Flush follows, for requests that wait for other answers of their lane
	checks    checks
	releases  *notify.Subscriptions
	changes   *notify.Subscriptions // other connections: the user may lack the right

	scans    chan struct{} // holds a value for each Scan that runs
	closing  atomic.Bool
	calls    atomic.Int64  // that are running
	quiet    chan struct{} // holds a value when Close should look again
	cancel   context.CancelFunc
	stopped  chan struct{}  // closed by cancel
	wg       sync.WaitGroup // supervisors of the lanes; Close waits
	closed   sync.Once
	closeErr error // the result of Close, set once

	mu     sync.Mutex
	claims []string // run_id by lane, empty if the lane is not connected
}

var _ master.Host = (*Quorum)(nil)

// New checks o and starts a lane to every master. It returns at once, without having reached any;
// WaitReady waits. The error lists all faults of o. The caller of New calls Close.
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
	q.members = newMembership(q)
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
// Masters shows which vote.
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

// Masters returns the status of the masters, in the order of Options.Masters.
func (q *Quorum) Masters() []stat.Master {
	all := make([]stat.Master, len(q.lanes))
	for i, l := range q.lanes {
		all[i] = l.Status()
	}
	return all
}

// Flush writes the requests that Async methods have queued. It does not block. An event loop
// calls it at the end of an iteration; the other methods flush by themselves.
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

// Drain ends all acquires that wait until they can be sent, and all that would have to wait later,
// with ErrEnding.
func (q *Quorum) Drain() { q.intake.drain() }

// Close refuses new work. It waits for running calls, and for connected masters to answer the
// releases that were sent, at most until ctx ends; then it closes the lanes and waits for every
// goroutine. An error says that releases were not answered: their keys stay until their ttl ends.
// Later calls return the same.
func (q *Quorum) Close(ctx context.Context) error {
	q.closed.Do(func() {
		q.closing.Store(true)
		for _, l := range q.lanes {
			l.BeginClose()
		}
		left := q.waitIdle(ctx)
		q.cancel()
		q.releases.Close()
		q.changes.Close()
		q.wg.Wait()
		q.deadlines.close()
		if left > 0 {
			q.closeErr = fmt.Errorf("close: %d releases not answered: %w", left, context.Cause(ctx))
		}
	})
	return q.closeErr
}

// waitIdle waits until no call runs and all releases are answered. If ctx ends first it returns
// how many are not.
func (q *Quorum) waitIdle(ctx context.Context) int {
	for {
		running, left := q.calls.Load(), 0 // in this order: a call may end with a release
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

// enter and leave surround every call, so that Close can wait for it.
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

// Ponged implements master.Host. Under overload a PING waits in queues, and its round trip says
// little about the master.
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
	q.members.update(func() { q.members.rules.Observe(lane, o) })
}

// Lost implements master.Host.
func (q *Quorum) Lost(lane int, writes uint64) {
	q.members.update(func() { q.members.rules.Lost(lane, writes) })
}

// Landed implements master.Host.
func (q *Quorum) Landed(lane int, t wire.TokenAt, voters uint64, voted time.Time) {
	q.checks.add(lane, t, voters, voted)
}

// ReleasedLate implements master.Host.
func (q *Quorum) ReleasedLate(t wire.TokenAt, missing uint64) { q.releaseAt(t, missing) }
