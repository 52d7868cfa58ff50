// Package quorum keeps locks on a majority of N independent Redis masters: the Redlock algorithm
// of Redis' page "Distributed Locks with Redis", with a fencing number in every token.
//
// [Quorum.Acquire], [Quorum.Extend] and [Quorum.Release] obtain, prolong and end a lock; their
// Async forms do the same without blocking. Each sends one operation to all masters, tallies the
// answers and decides as soon as the result is certain: a round (round.go). Acquire takes one
// round for each attempt, and one more if the fence has to be confirmed: acquisition.go has its
// state machine. Answers and deadlines drive the rounds; no goroutine waits for one. [Values] is
// for clients that prove by a value of their own that they hold a lock.
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

	"go.uber.org/zap"

	"lockproxy/quorum/internal/admission"
	"lockproxy/quorum/internal/notify"
	"lockproxy/quorum/internal/wire"
	"lockproxy/stat"
)

// Quorum holds locks on a majority of the masters. All methods are safe for concurrent use.
type Quorum struct {
	opts     Options
	log      *zap.Logger
	fleet    *fleet
	members  *membership
	floor    *admission.Floor
	calls    calls
	intake   intake
	checks   checks
	values   Values
	releases *notify.Subscriptions
	changes  *notify.Subscriptions // other connections: the user may lack the right
	scans    chan struct{}         // holds a value for each Scan that runs

	closed   sync.Once
	closeErr error // the result of Close, set once
}

// New checks o and starts a lane to every master. It returns at once, without having reached any;
// WaitReady waits. The error lists all faults of o. The caller of New calls Close.
func New(o Options) (*Quorum, error) {
	if err := o.validate(); err != nil {
		return nil, fmt.Errorf("quorum options: %w", err)
	}
	q := &Quorum{
		opts:  o,
		log:   o.Log,
		floor: new(admission.Floor),
		calls: newCalls(),
		scans: make(chan struct{}, MaxScans),
	}
	q.opts.MasterTimeout = max(o.MasterTimeout, wire.MinAttempt)
	q.opts.QueueTimeout = cmp.Or(o.QueueTimeout, defaultQueueTimeout)
	if q.log == nil {
		q.log = zap.NewNop()
	}
	if n := len(o.Masters); n%2 == 0 {
		q.log.Warn("an even number of masters tolerates no more failures than one less", zap.Int("masters", n))
	}
	q.fleet = newFleet(&q.opts, q.log, newHost(q), q.intake.load)
	q.intake.init(q.fleet)
	q.checks.fleet, q.checks.waits = q.fleet, make(map[wire.TokenAt]*check)
	q.values.q = q
	q.members = newMembership(q.fleet, q.floor)
	q.fleet.start()
	q.releases = newSubscriptions(q.fleet, wire.ReleasedPrefix)
	q.changes = newSubscriptions(q.fleet, wire.Changed)
	return q, nil
}

// WaitReady returns nil when every master has been evaluated: it votes, is in quarantine or has
// been refused, or could once not be reached; and the cause of ctx's end if that comes first.
// Masters shows which vote.
func (q *Quorum) WaitReady(ctx context.Context) error { return q.fleet.ready(ctx) }

// Masters returns the status of the masters, in the order of Options.Masters.
func (q *Quorum) Masters() []stat.Master {
	all := make([]stat.Master, len(q.fleet.lanes))
	for i, l := range q.fleet.lanes {
		all[i] = l.Status()
	}
	return all
}

// Flush writes the requests that Async methods have queued. It does not block. An event loop
// calls it at the end of an iteration; the other methods flush by themselves.
func (q *Quorum) Flush() { q.fleet.flush() }

// Drain ends all acquires that wait until they can be sent, and all that would have to wait later,
// with ErrEnding.
func (q *Quorum) Drain() { q.intake.drain() }

// Close refuses new work. It waits for running calls, and for connected masters to answer the
// releases that were sent, at most until ctx ends; then it closes the lanes and waits for every
// goroutine but that of a timer. An error says that releases were not answered: their keys stay
// until their ttl ends. Later calls return the same.
func (q *Quorum) Close(ctx context.Context) error {
	q.closed.Do(func() {
		q.calls.closing.Store(true)
		q.fleet.refuseWork()
		pending := q.calls.drain(ctx, q.fleet.pendingReleases)
		q.fleet.stop()
		q.releases.Close()
		q.changes.Close()
		q.fleet.wait()
		if pending > 0 {
			q.closeErr = fmt.Errorf("close: %d releases not answered: %w", pending, context.Cause(ctx))
		}
	})
	return q.closeErr
}

// Load returns how busy the masters and this process are.
func (q *Quorum) Load() stat.Load {
	l := q.intake.snapshot()
	l.LateBy, l.LateAt = q.fleet.lateness.last()
	return l
}
