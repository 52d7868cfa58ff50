// Package queue says which client of this proxy asks the masters for a lock next.
package queue

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"lockproxy/quorum"
)

const (
	// firstRetry and lastRetry bound the delay between attempts while a majority of the masters is
	// missing, or too late. It doubles with each.
	firstRetry = 20 * time.Millisecond
	lastRetry  = time.Second
)

// What Wait fails with, beside the errors of the masters.
var (
	ErrFull         = errors.New("too many waiters")
	ErrTimeout      = errors.New("timeout")
	ErrDraining     = errors.New("the proxy is ending")
	ErrDisconnected = errors.New("the client left")
)

// Queues are the wait queues of this proxy, one for each key that a client waits for. They are
// served in order of arrival, whatever the modes. Only a client that leads asks the masters: one
// that is first in the queues of all its keys. As a client enters all of them at once, the one
// that came first of all leads, and there is no deadlock.
//
// A queue subscribes to releases of its key after the first attempt that failed. Then the leader
// tries again, as it may have missed a release before. From then on these wake it: a release
// through any proxy, the expiry of the holder's lock, and pollEvery. A leader that gets the lock
// leaves. What the next one does depends on the lock:
//   - Exclusive: if the queue has subscribed it waits before it asks, as the lock is held until the
//     next release or expiry.
//   - Shared, Limited: it asks at once. There may be room for it; if not, the masters learn that
//     somebody waits who holds the key in another mode.
//
// Behind a shared lock all shared clients up to the first of another mode ask at once, see
// inviteLocked.
type Queues struct {
	locker   Acquirer
	watcher  Watcher
	maxTTL   time.Duration
	masters  int
	majority int // of all masters

	mu       sync.Mutex
	max      int
	byKey    map[string]*waitQueue
	waiting  int
	ended    map[string]history // of queues that ended with a grant
	draining chan struct{}      // closed by Drain
}

// Watcher subscribes to releases. *quorum.Quorum is one.
type Watcher interface {
	Watch(ctx context.Context, key string, released func(id string)) (stop func())
}

// New returns queues in which nobody waits. masters is how many masters there are, max how many
// clients may wait at a time, maxTTL the longest ttl of a lock.
func New(locker Acquirer, watcher Watcher, masters, max int, maxTTL time.Duration) *Queues {
	return &Queues{locker: locker, watcher: watcher, max: max, maxTTL: maxTTL, masters: masters, majority: masters/2 + 1,
		byKey: make(map[string]*waitQueue), ended: make(map[string]history),
		draining: make(chan struct{})}
}

// Wait joins the queues of want.Key and want.Keys and returns when the client has the lock, or with
// an error: ErrTimeout after timeout (0: none), ErrDisconnected when gone is closed, ErrDraining,
// ErrFull, context.Cause(ctx), or a *quorum.NoQuorumError if the masters could not be asked when
// the time was up. Without a timeout it is what attempts have failed with for maxTTL. It sets
// want.Waits itself. from is the client's address for operators; it may be nil.
func (qs *Queues) Wait(ctx context.Context, gone <-chan struct{}, timeout time.Duration,
	from net.Addr, want quorum.Request) (quorum.Lease, error) {
	w, err := qs.join(from, want)
	if err != nil {
		return quorum.Lease{}, err
	}
	defer qs.leave(w)
	limits := waitLimits{ctx: ctx, gone: gone, draining: qs.draining}
	if timeout > 0 {
		w.until = w.joined.Add(timeout)
		timer := time.NewTimer(timeout)
		defer timer.Stop()
		limits.timeout = timer.C
	}
	lease, err := qs.follow(w, limits)
	return lease, qs.timeoutError(w, err)
}

// timeoutError replaces ErrTimeout by the error of the last attempt, if that found too few
// masters.
func (qs *Queues) timeoutError(w *waiter, err error) error {
	if !errors.Is(err, ErrTimeout) {
		return err
	}
	qs.mu.Lock()
	defer qs.mu.Unlock()
	for _, q := range w.queues {
		if errors.Is(q.fault, quorum.ErrNoQuorum) {
			return q.fault
		}
	}
	return err
}

// follow waits until w leads, and then leads. On the way w asks once each time it is invited; if
// it is refused it keeps its place.
func (qs *Queues) follow(w *waiter, limits waitLimits) (quorum.Lease, error) {
	for {
		leads, invited := qs.turn(w)
		if leads {
			return qs.lead(w, limits)
		}
		if invited {
			if lease, err, left := qs.try(w, limits, false); err == nil || left {
				return lease, err
			}
			continue
		}
		if err := limits.wait(w.wakeUp, nil); err != nil {
			return quorum.Lease{}, err
		}
	}
}

// lead asks the masters and waits for wake-ups until the client has the lock or its wait ends.
func (qs *Queues) lead(w *waiter, limits waitLimits) (quorum.Lease, error) {
	if until := qs.heldUntil(w); !until.IsZero() {
		if err := qs.awaitWakeUp(w, limits, time.Until(until)); err != nil {
			return quorum.Lease{}, err
		}
	}
	for {
		if err := qs.yieldToPeers(w, limits); err != nil {
			return quorum.Lease{}, err
		}
		lease, err, _ := qs.try(w, limits, true)
		if err == nil {
			return lease, nil
		}
		if err := qs.awaitRetry(w, limits, err); err != nil {
			return quorum.Lease{}, err
		}
	}
}

// awaitRetry waits for the next attempt after one that failed with err. It returns an error if
// there must be none.
func (qs *Queues) awaitRetry(w *waiter, limits waitLimits, err error) error {
	held, isHeld := errors.AsType[*quorum.HeldError](err)
	switch {
	case isHeld && len(qs.unsubscribed(w)) > 0:
		// a release before the subscription sends no message, so ask again
		return qs.subscribe(w, limits)
	case isHeld && held.Free >= 0:
		return qs.awaitWakeUp(w, limits, held.Free+time.Millisecond+rand.N(2*time.Millisecond))
	case isHeld:
		return qs.awaitWakeUp(w, limits, never)
	case limits.timeout == nil && qs.faultFor(w) >= qs.maxTTL:
		return err
	case errors.Is(err, quorum.ErrNoQuorum), errors.Is(err, quorum.ErrLate),
		errors.Is(err, quorum.ErrFence):
		delay := qs.nextDelay(w)
		return limits.sleep(delay/2 + rand.N(delay/2))
	}
	return err
}

// try makes one attempt for w. If w leads, its queues note what came of it. left: the limits ended
// it before it could be sent.
func (qs *Queues) try(w *waiter, limits waitLimits, leads bool) (lease quorum.Lease, err error, left bool) {
	select {
	case <-w.wakeUp: // it is older than this attempt
	default:
	}
	want := w.want
	if leads && w.waited {
		want.Waits = w.remaining()
	}
	if want.Patience = w.remaining(); w.until.IsZero() {
		want.Patience = -1
	}
	freed := qs.freed(w)
	if lease, err, left = acquire(qs.locker, want, limits); left {
		return lease, err, true
	}
	qs.mu.Lock()
	defer qs.mu.Unlock()
	for _, q := range w.queues {
		switch {
		case !leads: // it changes nothing for those who do
		case err == nil:
			q.grantedLocked(w)
		default:
			q.refusedLocked(err, freed)
		}
	}
	if w.granted = err == nil; !w.granted {
		w.waited, w.invited = true, false
	}
	return lease, err, false
}

// SetMax changes how many clients may wait at a time. Those that wait already go on.
func (qs *Queues) SetMax(n int) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	qs.max = n
}

// Drain ends the wait of all clients, now and later, with ErrDraining. It may be called once.
func (qs *Queues) Drain() { close(qs.draining) }
