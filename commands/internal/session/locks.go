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

// notice is how long before the end of validity a lock of ttl counts as lost: the holder is to know it by then.
func lossMargin(ttl time.Duration) time.Duration { return min(50*time.Millisecond, ttl/20) }

// retryRenewal is how long after a renewal that found no majority the next one follows, at most.
const retryRenewal = 250 * time.Millisecond

// holds are the session locks of this proxy: those that belong to a connection, are renewed while it is open, and released when the
// client ends it.
//
// No goroutine waits for a hold: a timer starts one for each renewal. The masters are never asked
// with mu held, which event loops take.
type Locks struct {
	locker   Locker
	released func(key, secret string) // is told of every release
	report   func(stat.Event)         // is told how a hold ended, unless by UNLOCK
	log      *zap.Logger
	renewals sync.WaitGroup

	suspended func() time.Duration // how long the machine has been suspended

	mu           sync.Mutex
	maxHold      time.Duration
	delay        time.Duration    // between an end that was not QUIT and the release
	bySecret     map[string]*lock // by secret
	byConnection map[Connection]map[*lock]struct{}
	draining     bool // nothing is renewed any more
	closed       bool
	check        *time.Timer // runs while there are holds; see lookForSuspend
}

// sessionLocker renews and releases locks; *quorum.Quorum is one.
type Locker interface {
	Extend(ctx context.Context, key string, token quorum.Token, ttl time.Duration) (time.Duration, error)
	Abandon(key string, token quorum.Token)
}

// owner is the connection that a session lock belongs to; *resp.Session is one. Its methods say what they do there.
type Connection interface {
	OnEnd(func(resp.End))
	RESP3() bool
	Push([]byte) error
	RemoteAddr() net.Addr
}

var _ Connection = (*resp.Session)(nil)

// hold is one session lock.
type lock struct {
	conn  Connection
	key   string
	token quorum.Token
	ttl   time.Duration

	// Guarded by holds.mu. Times are those of holds.now.
	granted  time.Time
	renewal  time.Time // when the next one is due
	deadline time.Time // until when the holder may count on the lock, less notice
	timerAt  time.Time // what timer is set to
	timer    *time.Timer
	renewing bool // the timer means nothing; it is set when that ends
	over     bool // nothing more is to be done: unlocked, lost, or let go
}

// extendDeadline takes over that the lock is valid for validity from now on.
func (h *lock) extendDeadline(now time.Time, validity time.Duration) {
	if d := now.Add(validity - lossMargin(h.ttl)); d.After(h.deadline) {
		h.deadline = d
	}
}

func New(locker Locker, freed func(key, secret string), report func(stat.Event), maxHold, delay time.Duration, log *zap.Logger) *Locks {
	return &Locks{locker: locker, released: freed, report: report, maxHold: maxHold, delay: delay, log: log, suspended: quorum.Suspended,
		bySecret: make(map[string]*lock), byConnection: make(map[Connection]map[*lock]struct{})}
}

// keep begins to renew lease, just granted, for session. The first renewal is due after a third of ttl.
func (hs *Locks) Keep(session Connection, key string, lease quorum.Lease, ttl time.Duration) {
	now := hs.now()
	h := &lock{conn: session, key: key, token: lease.Token, ttl: ttl, granted: now, renewal: now.Add(ttl / 3), deadline: now.Add(lease.Validity - lossMargin(ttl))}
	hs.mu.Lock()
	set, known := hs.byConnection[session]
	if !known {
		set = make(map[*lock]struct{})
		hs.byConnection[session] = set
	}
	set[h] = struct{}{}
	hs.bySecret[h.token.Secret] = h
	h.timerAt = h.renewal
	h.timer = time.AfterFunc(h.timerAt.Sub(now), func() { hs.renew(h) })
	hs.startCheckLocked()
	hs.mu.Unlock()
	if !known {
		session.OnEnd(func(how resp.End) { hs.connectionEnded(session, how) })
	}
}

// renew is started by the timer of h: it extends the lock, or finds that it is lost.
func (hs *Locks) renew(h *lock) {
	hs.mu.Lock()
	if h.over || hs.draining || h.renewing {
		hs.mu.Unlock()
		return
	}
	hs.renewals.Add(1)
	defer hs.renewals.Done()
	left, lost := hs.dueLocked(h)
	hs.mu.Unlock()
	if left > 0 {
		ctx, cancel := context.WithTimeout(context.Background(), left)
		defer cancel()
		validity, err := hs.locker.Extend(ctx, h.key, h.token, h.ttl)
		hs.mu.Lock()
		lost = hs.renewedLocked(h, validity, err)
		hs.mu.Unlock()
	}
	if lost != nil {
		lost(h)
		hs.reportEnd(h, stat.OutcomeLost)
		hs.log.Warn("session lock lost", zap.String("key", h.key), zap.Stringer("client", h.conn.RemoteAddr()))
		h.pushLost()
	}
}

// dueLocked decides what is due when the timer of h goes off: a renewal, which has the time left;
// or the loss of the lock, which lost deals with when the mutex is free.
func (hs *Locks) dueLocked(h *lock) (left time.Duration, lost func(*lock)) {
	now := hs.now()
	tooLong := now.Sub(h.granted) >= hs.maxHold
	switch {
	case !now.Before(h.deadline) && tooLong:
		hs.dropLocked(h)
		return 0, func(*lock) {} // it runs out by itself
	case !now.Before(h.deadline):
		hs.dropLocked(h)
		return 0, hs.release
	case tooLong: // the holder is told when validity has run out
		hs.setTimerLocked(h, h.deadline)
		return 0, nil
	}
	h.renewing = true
	return h.deadline.Sub(now), nil
}

// renewedLocked takes the outcome of a renewal. A lock that is lost goes to lost when the mutex is
// free, so that EXTEND and UNLOCK find nothing.
func (hs *Locks) renewedLocked(h *lock, validity time.Duration, err error) (lost func(*lock)) {
	h.renewing = false
	if h.over {
		return nil
	}
	now := hs.now()
	switch {
	case err == nil:
		h.extendDeadline(now, validity)
		for !h.renewal.After(now) { // absolute times: a late renewal does not move the next one
			h.renewal = h.renewal.Add(h.ttl / 3)
		}
		hs.setTimerLocked(h, h.renewal)
	case errors.Is(err, quorum.ErrLost): // Extend has seen to what is left of it
		hs.dropLocked(h)
		return func(h *lock) { hs.released(h.key, h.token.Secret) }
	case !now.Before(h.deadline):
		hs.dropLocked(h)
		return hs.release
	default:
		hs.log.Debug("session lock not renewed, tried again", zap.String("key", h.key), zap.Error(err))
		hs.setTimerLocked(h, now.Add(min(h.ttl/10, retryRenewal, h.deadline.Sub(now))))
	}
	return nil
}

// reportEnd tells how the lock ended, unless by UNLOCK.
func (hs *Locks) reportEnd(h *lock, how stat.Outcome) {
	if hs.report == nil {
		return
	}
	d := stat.Event{Command: "session", Outcome: how, Key: h.key, Fence: h.token.Fence, TTL: h.ttl, Session: true, Client: h.conn.RemoteAddr()}
	if how == stat.OutcomeReleased {
		d.Held = hs.now().Sub(h.granted)
	}
	hs.report(d)
}

// dropLocked takes h out of everything. Its timer finds nothing to do.
func (hs *Locks) dropLocked(h *lock) {
	h.over = true
	h.timer.Stop()
	delete(hs.bySecret, h.token.Secret)
	set := hs.byConnection[h.conn]
	delete(set, h)
}

// forget ends the renewal of a token of key that is about to be released.
func (hs *Locks) Forget(key, secret string) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	if h := hs.bySecret[secret]; h != nil && h.key == key {
		hs.dropLocked(h)
	}
}

// extended is told that the client has extended the lock itself: it may count on it for validity from here, whatever becomes of renewals.
func (hs *Locks) Extended(key, secret string, validity time.Duration) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	if h := hs.bySecret[secret]; h != nil && h.key == key {
		h.extendDeadline(hs.now(), validity)
	}
}

// ended is told how the connection of session ended, or that it was reset. What the client ended is released; what somebody else
// ended runs out by itself, as the holder may still be at work.
func (hs *Locks) connectionEnded(session Connection, how resp.End) {
	hs.mu.Lock()
	gone := slices.Collect(maps.Keys(hs.byConnection[session]))
	for _, h := range gone {
		hs.dropLocked(h)
	}
	if how != resp.EndReset {
		delete(hs.byConnection, session)
	}
	delay := hs.delay
	waits := (how == resp.EndClient || how == resp.EndReset) && delay > 0
	if waits && hs.closed {
		gone = nil
	}
	if waits {
		hs.renewals.Add(len(gone))
	}
	hs.mu.Unlock()
	for _, h := range gone {
		switch {
		case how == resp.EndProxy:
			hs.reportEnd(h, stat.OutcomeLeft)
			hs.log.Info("connection ended by the proxy or the upstream, its session lock is left to run out", zap.String("key", h.key))
		case waits:
			hs.reportEnd(h, stat.OutcomeReleased)
			go hs.releaseLater(h, delay)
		default:
			hs.reportEnd(h, stat.OutcomeReleased)
			hs.release(h)
		}
	}
}

func (hs *Locks) release(h *lock) {
	hs.locker.Abandon(h.key, h.token)
	hs.released(h.key, h.token.Secret)
}

// releaseLater keeps the key closed for the lock-delay, as the holder's last writes may be on their way. Should the proxy end
// meanwhile, the key runs out by itself. It counts among the renewals.
func (hs *Locks) releaseLater(h *lock, delay time.Duration) {
	defer hs.renewals.Done()
	ctx, cancel := context.WithTimeout(context.Background(), h.ttl)
	defer cancel()
	if _, err := hs.locker.Extend(ctx, h.key, h.token, delay); err != nil {
		hs.log.Warn("session-lock-delay cannot be kept", zap.String("key", h.key), zap.Error(err))
	}
	time.AfterFunc(delay, func() { hs.release(h) })
}

// count returns how many session locks are held.
func (hs *Locks) Count() int {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	return len(hs.bySecret)
}

func (hs *Locks) Change(maxHold, delay time.Duration) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	hs.maxHold, hs.delay = maxHold, delay
}
