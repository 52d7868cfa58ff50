package session

import (
	"context"
	"errors"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"lockproxy/quorum"
	"lockproxy/resp"
	"lockproxy/stat"
)

// lossMargin is how long before the end of its validity a lock of ttl counts as lost, so that its
// holder can learn it in time.
func lossMargin(ttl time.Duration) time.Duration { return min(50*time.Millisecond, ttl/20) }

// retryRenewal bounds the time between a renewal that found no majority and the next one.
const retryRenewal = 250 * time.Millisecond

// Locks are the session locks of this proxy. Each belongs to a connection: it is renewed while the
// connection is open, and released when the client closes it.
//
// No goroutine waits for a lock: a timer starts one for each renewal. Event loops take mu, so no
// method holds it while it asks the masters.
type Locks struct {
	locker   Renewer
	released func(key, secret string) // called at every release
	report   func(stat.Event)         // called when a lock ends without UNLOCK; may be nil
	log      *zap.Logger
	renewals sync.WaitGroup

	suspended func() time.Duration // how long the machine has been suspended in all

	mu           sync.Mutex
	maxHold      time.Duration
	delay        time.Duration // between a disconnect without QUIT and the release
	bySecret     map[string]*lock
	byConnection map[Connection]map[*lock]struct{}
	ending       map[ended]*lock // to be released after delay
	draining     bool            // no more renewals
	closed       bool
	check        *time.Timer // runs while there are locks; see checkSuspend
}

// Renewer renews and releases locks. *quorum.Quorum is one.
type Renewer interface {
	ExtendAsync(ctx context.Context, want quorum.ExtendRequest, done func(time.Duration, error))
	Abandon(key string, token quorum.Token)
	Flush()
}

// Connection owns session locks. *resp.Session is one and documents the methods.
type Connection interface {
	OnEnd(func(resp.End))
	RESP3() bool
	Push([]byte) error
	RemoteAddr() net.Addr
}

var _ Connection = (*resp.Session)(nil)

// lock is one session lock.
type lock struct {
	conn  Connection
	token quorum.Token
	ttl   time.Duration

	// Guarded by Locks.mu. Times are those of Locks.now.
	keys     []string  // those not unlocked, one at least; it is replaced, and final once dropped
	lapses   bool      // not renewed: some keys were unlocked, or the proxy drained when it was kept
	granted  time.Time // or taken over, if it was granted elsewhere
	kept     time.Time // by this connection; max-hold counts from here
	renewal  time.Time // when it is due
	deadline time.Time // end of the validity, less lossMargin
	timerAt  time.Time // when timer fires
	timer    *time.Timer
	cancel   context.CancelFunc // ends the renewal that runs, which then sets the timer; nil: none runs
	dropped  bool               // unlocked, lost, or left to run out
	moves    bool               // to another connection, if the masters agree
}

// extendDeadline records that the lock is valid for validity from now on.
func (l *lock) extendDeadline(now time.Time, validity time.Duration) {
	if d := now.Add(validity - lossMargin(l.ttl)); d.After(l.deadline) {
		l.deadline = d
	}
}

// New returns Locks without a lock. It calls freed for each lock that was released here, and
// report for each event. maxHold is how long a lock is renewed at most, delay
// how long it stays closed when its connection has ended.
func New(locker Renewer, freed func(key, secret string), report func(stat.Event),
	maxHold, delay time.Duration, log *zap.Logger) *Locks {
	return &Locks{locker: locker, released: freed, report: report, maxHold: maxHold, delay: delay, log: log,
		suspended: quorum.Suspended, bySecret: make(map[string]*lock),
		byConnection: make(map[Connection]map[*lock]struct{}), ending: make(map[ended]*lock)}
}

// renew runs when the timer of l fires. It extends the lock, or ends it as lost.
func (ls *Locks) renew(l *lock) {
	ls.mu.Lock()
	if l.dropped || ls.draining && !l.lapses || l.cancel != nil {
		ls.mu.Unlock()
		return
	}
	ls.renewals.Add(1)
	defer ls.renewals.Done()
	ctx, lost := ls.dueLocked(l)
	keys := l.keys
	ls.mu.Unlock()
	if ctx != nil {
		validity, err := ls.extend(ctx, l, keys, l.ttl)
		ls.mu.Lock()
		lost = ls.renewedLocked(l, validity, err)
		ls.mu.Unlock()
	}
	if lost != nil {
		lost(l)
		ls.reportEnd(l, stat.OutcomeLost)
		ls.log.Warn("session lock lost", zap.String("key", l.keys[0]), zap.Stringer("client", l.conn.RemoteAddr()))
		l.pushLost(l.keys)
	}
}

// extend asks the masters to extend keys of l, and waits for the validity.
func (ls *Locks) extend(ctx context.Context, l *lock, keys []string, ttl time.Duration) (time.Duration, error) {
	return quorum.AwaitValidity(ctx, ls.locker.Flush, func(done func(time.Duration, error)) {
		ls.locker.ExtendAsync(ctx, quorum.ExtendRequest{Key: keys[0], Keys: keys[1:], Token: l.token, TTL: ttl}, done)
	})
}

// dueLocked decides what to do when the timer of l has fired. It returns the context of a renewal,
// or, if the lock is lost, a function to call without the mutex.
//
// No client waits for a renewal. So masters that are slow for a while have more time than for a
// command: otherwise all renewals would fail, and add more requests.
func (ls *Locks) dueLocked(l *lock) (ctx context.Context, lost func(*lock)) {
	now := ls.now()
	tooLong := l.lapses || now.Sub(l.kept) >= ls.maxHold
	switch {
	case !now.Before(l.deadline):
		ls.dropLocked(l)
		return nil, leave
	case tooLong: // the holder learns it at the deadline
		ls.setTimerLocked(l, l.deadline)
		return nil, nil
	}
	ctx, l.cancel = context.WithTimeout(context.Background(), min(l.deadline.Sub(now), l.ttl/10))
	return ctx, nil
}

// leave leaves a lost lock to run out. It must not be released: the holder may have extended it
// through another proxy, while this one was paused or had no way to the masters.
func leave(*lock) {}

// renewedLocked takes the result of a renewal. If the lock is lost it returns a function to call
// without the mutex.
func (ls *Locks) renewedLocked(l *lock, validity time.Duration, err error) (lost func(*lock)) {
	l.cancel()
	l.cancel = nil
	if l.dropped {
		return nil
	}
	now := ls.now()
	switch {
	case err == nil:
		l.extendDeadline(now, validity)
		for !l.renewal.After(now) { // absolute times: a late renewal does not delay the next one
			l.renewal = l.renewal.Add(l.ttl / 3)
		}
		ls.setTimerLocked(l, l.renewal)
	case errors.Is(err, quorum.ErrLost): // Extend has released its remains
		ls.dropLocked(l)
		return ls.wake
	case !now.Before(l.deadline):
		ls.dropLocked(l)
		return leave
	default:
		ls.log.Debug("session lock not renewed, tried again", zap.String("key", l.keys[0]), zap.Error(err))
		ls.setTimerLocked(l, now.Add(min(l.ttl/10, retryRenewal, l.deadline.Sub(now))))
	}
	return nil
}

// reportEnd reports the end of a lock without UNLOCK.
func (ls *Locks) reportEnd(l *lock, how stat.Outcome) {
	if ls.report == nil {
		return
	}
	d := stat.Event{Command: "session", Outcome: how, Key: l.keys[0], Keys: l.keys[1:], Fence: l.token.Fence,
		TTL: l.ttl, Session: true, Client: l.conn.RemoteAddr()}
	if how == stat.OutcomeReleased {
		d.Held = ls.now().Sub(l.granted)
	}
	ls.report(d)
}

// dropLocked forgets l and stops its timer.
func (ls *Locks) dropLocked(l *lock) {
	l.dropped = true
	l.timer.Stop()
	delete(ls.bySecret, l.token.Secret)
	set := ls.byConnection[l.conn]
	delete(set, l)
}

// connectionEnded runs when the connection has ended or was reset. If the client ended it, its
// locks are released. Otherwise they run out, because the holder may still be at work.
func (ls *Locks) connectionEnded(session Connection, how resp.End) {
	ls.mu.Lock()
	locks := slices.Collect(maps.Keys(ls.byConnection[session]))
	for _, l := range locks {
		ls.dropLocked(l)
	}
	if how != resp.EndReset {
		delete(ls.byConnection, session)
	}
	delay := ls.delay
	waits := (how == resp.EndClient || how == resp.EndReset) && delay > 0
	if waits && ls.closed {
		locks = nil
	}
	for _, l := range locks {
		if waits && !l.moves {
			ls.renewals.Add(1)
			ls.awaitEndLocked(l)
		}
	}
	ls.mu.Unlock()
	for _, l := range locks {
		switch {
		case l.moves:
			ls.reportEnd(l, stat.OutcomeLeft)
		case how == resp.EndProxy:
			ls.reportEnd(l, stat.OutcomeLeft)
			ls.log.Info("connection ended by the proxy or the upstream, its session lock is left to run out",
				zap.String("key", l.keys[0]))
		case waits:
			ls.reportEnd(l, stat.OutcomeReleased)
			go ls.releaseLater(l, delay)
		default:
			ls.reportEnd(l, stat.OutcomeReleased)
			ls.release(l, l.keys)
		}
	}
}

// Count returns how many session locks are held.
func (ls *Locks) Count() int {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return len(ls.bySecret)
}

// Change changes both times, also for locks that are held already.
func (ls *Locks) Change(maxHold, delay time.Duration) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.maxHold, ls.delay = maxHold, delay
}
