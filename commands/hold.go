package commands

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
)

// notice is how long before the end of validity a lock of ttl counts as lost: the holder is to know it by then.
func notice(ttl time.Duration) time.Duration { return min(50*time.Millisecond, ttl/20) }

// retryRenewal is how long after a renewal that found no majority the next one follows, at most.
const retryRenewal = 250 * time.Millisecond

// holds are the session locks of this proxy: those that belong to a connection, are renewed while it is open, and released when the
// client ends it.
//
// No goroutine waits for a hold: a timer starts one for each renewal. The masters are never asked
// with mu held, which event loops take.
type holds struct {
	locker   Locker
	freed    func(key, secret string) // is told of every release
	report   func(*hold, Outcome)     // is told how a hold ended, unless by UNLOCK
	log      *zap.Logger
	renewals sync.WaitGroup

	suspended func() time.Duration // how long the machine has been suspended

	mu       sync.Mutex
	maxHold  time.Duration
	delay    time.Duration    // between an end that was not QUIT and the release
	m        map[string]*hold // by secret
	sessions map[owner]map[*hold]struct{}
	draining bool // nothing is renewed any more
	closed   bool
	look     *time.Timer // runs while there are holds; see lookForSuspend
}

// owner is the connection that a session lock belongs to; *resp.Session is one. Its methods say what they do there.
type owner interface {
	OnEnd(func(resp.End))
	RESP3() bool
	Push([]byte) error
	RemoteAddr() net.Addr
}

var _ owner = (*resp.Session)(nil)

// hold is one session lock.
type hold struct {
	session owner
	key     string
	token   quorum.Token
	ttl     time.Duration

	// Guarded by holds.mu. Times are those of holds.now.
	granted  time.Time
	renewal  time.Time // when the next one is due
	deadline time.Time // until when the holder may count on the lock, less notice
	wake     time.Time // what timer is set to
	timer    *time.Timer
	renewing bool // the timer means nothing; it is set when that ends
	over     bool // nothing more is to be done: unlocked, lost, or let go
}

func newHolds(locker Locker, freed func(key, secret string), maxHold, delay time.Duration, log *zap.Logger) *holds {
	return &holds{locker: locker, freed: freed, report: func(*hold, Outcome) {}, maxHold: maxHold, delay: delay, log: log, suspended: quorum.Suspended,
		m: make(map[string]*hold), sessions: make(map[owner]map[*hold]struct{})}
}

// keep begins to renew lease, just granted, for session. The first renewal is due after a third of ttl.
func (hs *holds) keep(session owner, key string, lease quorum.Lease, ttl time.Duration) {
	now := hs.now()
	h := &hold{session: session, key: key, token: lease.Token, ttl: ttl, granted: now, renewal: now.Add(ttl / 3), deadline: now.Add(lease.Validity - notice(ttl))}
	hs.mu.Lock()
	set, known := hs.sessions[session]
	if !known {
		set = make(map[*hold]struct{})
		hs.sessions[session] = set
	}
	set[h] = struct{}{}
	hs.m[h.token.Secret] = h
	h.wake = h.renewal
	h.timer = time.AfterFunc(h.wake.Sub(now), func() { hs.renew(h) })
	hs.lookLocked()
	hs.mu.Unlock()
	if !known {
		session.OnEnd(func(how resp.End) { hs.ended(session, how) })
	}
}

// renew is started by the timer of h: it extends the lock, or finds that it is lost.
func (hs *holds) renew(h *hold) {
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
		hs.report(h, OutLost)
		hs.log.Warn("session lock lost", zap.String("key", h.key), zap.Stringer("client", h.session.RemoteAddr()))
		h.tell()
	}
}

// dueLocked decides what is due when the timer of h goes off: a renewal, which has the time left;
// or the loss of the lock, which lost deals with when the mutex is free.
func (hs *holds) dueLocked(h *hold) (left time.Duration, lost func(*hold)) {
	now := hs.now()
	tooLong := now.Sub(h.granted) >= hs.maxHold
	switch {
	case !now.Before(h.deadline) && tooLong:
		hs.dropLocked(h)
		return 0, func(*hold) {} // it runs out by itself
	case !now.Before(h.deadline):
		hs.dropLocked(h)
		return 0, hs.release
	case tooLong: // the holder is told when validity has run out
		hs.wakeLocked(h, h.deadline)
		return 0, nil
	}
	h.renewing = true
	return h.deadline.Sub(now), nil
}

// renewedLocked takes the outcome of a renewal. A lock that is lost goes to lost when the mutex is
// free, so that EXTEND and UNLOCK find nothing.
func (hs *holds) renewedLocked(h *hold, validity time.Duration, err error) (lost func(*hold)) {
	h.renewing = false
	if h.over {
		return nil
	}
	now := hs.now()
	switch {
	case err == nil:
		h.deadline = later(h.deadline, now.Add(validity-notice(h.ttl)))
		for !h.renewal.After(now) { // absolute times: a late renewal does not move the next one
			h.renewal = h.renewal.Add(h.ttl / 3)
		}
		hs.wakeLocked(h, h.renewal)
	case errors.Is(err, quorum.ErrLost): // Extend has seen to what is left of it
		hs.dropLocked(h)
		return func(h *hold) { hs.freed(h.key, h.token.Secret) }
	case !now.Before(h.deadline):
		hs.dropLocked(h)
		return hs.release
	default:
		hs.log.Debug("session lock not renewed, tried again", zap.String("key", h.key), zap.Error(err))
		hs.wakeLocked(h, now.Add(min(h.ttl/10, retryRenewal, h.deadline.Sub(now))))
	}
	return nil
}

// dropLocked takes h out of everything. Its timer finds nothing to do.
func (hs *holds) dropLocked(h *hold) {
	h.over = true
	h.timer.Stop()
	delete(hs.m, h.token.Secret)
	set := hs.sessions[h.session]
	delete(set, h)
}

// forget ends the renewal of a token of key that is about to be released.
func (hs *holds) forget(key, secret string) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	if h := hs.m[secret]; h != nil && h.key == key {
		hs.dropLocked(h)
	}
}

// extended is told that the client has extended the lock itself: it may count on it for validity from here, whatever becomes of renewals.
func (hs *holds) extended(key, secret string, validity time.Duration) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	if h := hs.m[secret]; h != nil && h.key == key {
		h.deadline = later(h.deadline, hs.now().Add(validity-notice(h.ttl)))
	}
}

// ended is told how the connection of session ended, or that it was reset. What the client ended is released; what somebody else
// ended runs out by itself, as the holder may still be at work.
func (hs *holds) ended(session owner, how resp.End) {
	hs.mu.Lock()
	gone := slices.Collect(maps.Keys(hs.sessions[session]))
	for _, h := range gone {
		hs.dropLocked(h)
	}
	if how != resp.EndReset {
		delete(hs.sessions, session)
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
			hs.report(h, OutLeft)
			hs.log.Info("connection ended by the proxy or the upstream, its session lock is left to run out", zap.String("key", h.key))
		case waits:
			hs.report(h, OutReleased)
			go hs.releaseLater(h, delay)
		default:
			hs.report(h, OutReleased)
			hs.release(h)
		}
	}
}

func (hs *holds) release(h *hold) {
	hs.locker.Abandon(h.key, h.token)
	hs.freed(h.key, h.token.Secret)
}

// releaseLater keeps the key closed for the lock-delay, as the holder's last writes may be on their way. Should the proxy end
// meanwhile, the key runs out by itself. It counts among the renewals.
func (hs *holds) releaseLater(h *hold, delay time.Duration) {
	defer hs.renewals.Done()
	ctx, cancel := context.WithTimeout(context.Background(), h.ttl)
	defer cancel()
	if _, err := hs.locker.Extend(ctx, h.key, h.token, delay); err != nil {
		hs.log.Warn("session-lock-delay cannot be kept", zap.String("key", h.key), zap.Error(err))
	}
	time.AfterFunc(delay, func() { hs.release(h) })
}

// count returns how many session locks are held.
func (hs *holds) count() int {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	return len(hs.m)
}
