package queue

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"lockproxy/quorum"
)

const (
	// pollEvery bounds how long the head of a queue waits before it asks the masters again. It
	// matters only if every message about a release is lost.
	pollEvery = time.Second
	never     = time.Duration(math.MaxInt64)
	// firstRetry and lastRetry bound the delay between attempts while a majority of the masters is
	// missing. It doubles with each.
	firstRetry = 20 * time.Millisecond
	lastRetry  = time.Second
)

var (
	ErrFull         = errors.New("too many waiters")
	ErrTimeout      = errors.New("timeout")
	ErrDraining     = errors.New("the proxy is ending")
	ErrDisconnected = errors.New("the client left")
)

// Queues are the wait queues of this proxy, one for each key that a client waits for. They are
// served in order of arrival. Only the head of a queue asks the masters.
//
// A queue subscribes to releases of its key after the first attempt that failed. Then its head
// tries again, as it may have missed a release before. From then on these wake the head: a release
// through any proxy, the expiry of the holder's lock, and pollEvery. A head that gets the lock
// leaves. If the queue has subscribed, the next head waits before it asks: the lock is held until
// the next release or expiry.
type Queues struct {
	locker   Locker
	maxTTL   time.Duration
	majority int // of all masters

	mu       sync.Mutex
	max      int
	byKey    map[string]*waitQueue
	waiting  int
	ended    map[string]history // of queues that ended with a grant
	draining chan struct{}      // closed by Drain
}

// waitQueue holds the waiters for one key.
type waitQueue struct {
	key    string
	wakeUp chan struct{} // capacity 1: the key may be free
	history

	// Guarded by Queues.mu.
	waiters  []*waiter // the first is the head
	stop     func()    // ends the subscription; nil without one
	lastFree time.Time // the last sign that the key is free, unless a grant followed

	// Used by the head only.
	expiryKnown bool  // expires is known: the next head need not ask first
	fault       error // the last attempt found too few masters
	faultSince  time.Time
	delay       time.Duration
}

// release is one release of the key. Each master that held the token sends a message as soon as it
// has released it. After the first message a majority may still hold the key; after messages of a
// majority the key is free.
type release struct {
	id      string
	masters int  // how many have sent a message
	granted bool // the lock has been granted since
}

// waiter is one client in a queue.
type waiter struct {
	head   chan struct{} // closed when it becomes the head
	joined time.Time
}

// Locker asks the masters for locks and subscribes to releases. *quorum.Quorum is one.
type Locker interface {
	Acquire(ctx context.Context, want quorum.Request) (quorum.Lease, error)
	Watch(ctx context.Context, key string, released func(id string)) (stop func())
}

// New returns queues in which nobody waits. masters is how many masters there are, max how many
// clients may wait at a time, maxTTL the longest ttl of a lock.
func New(locker Locker, masters, max int, maxTTL time.Duration) *Queues {
	return &Queues{locker: locker, max: max, maxTTL: maxTTL, majority: masters/2 + 1,
		byKey: make(map[string]*waitQueue), ended: make(map[string]history), draining: make(chan struct{})}
}

// Wait joins the queue of want.Key and returns when the client has the lock, or with an error:
// ErrTimeout after timeout (0: none), ErrDisconnected when gone is closed, ErrDraining, ErrFull,
// context.Cause(ctx), or a *quorum.NoQuorumError if the masters could not be asked when the time
// was up.
func (qs *Queues) Wait(ctx context.Context, gone <-chan struct{}, timeout time.Duration, want quorum.Request) (quorum.Lease, error) {
	q, w, err := qs.join(want.Key)
	if err != nil {
		return quorum.Lease{}, err
	}
	defer qs.leave(q, w)
	limits := waitLimits{ctx: ctx, gone: gone, draining: qs.draining}
	if timeout > 0 {
		timer := time.NewTimer(timeout)
		defer timer.Stop()
		limits.timeout = timer.C
	}
	if err := limits.until(w.head); err != nil {
		return quorum.Lease{}, qs.timeoutError(q, err)
	}
	lease, err := qs.lead(q, w, limits, timeout == 0, want)
	if err != nil {
		q.expiryKnown = false // this waiter may have consumed a wake-up
	}
	return lease, qs.timeoutError(q, err)
}

// timeoutError replaces ErrTimeout by the error of the last attempt, if that found too few
// masters.
func (qs *Queues) timeoutError(q *waitQueue, err error) error {
	if err != ErrTimeout {
		return err
	}
	qs.mu.Lock()
	defer qs.mu.Unlock()
	if q.fault != nil {
		return q.fault
	}
	return err
}

// lead runs at the head of a queue. It asks the masters and waits for wake-ups until the client
// has the lock or its wait ends.
func (qs *Queues) lead(q *waitQueue, w *waiter, limits waitLimits, endless bool, want quorum.Request) (quorum.Lease, error) {
	handed := q.expiryKnown // else the lock may have been free all along
	for ask := !q.expiryKnown || !qs.subscribed(q); ; ask = true {
		if !ask {
			if err := qs.awaitWakeUp(q, limits, time.Until(q.expires)); err != nil {
				return quorum.Lease{}, err
			}
		}
		if err := qs.yieldToPeers(q, limits); err != nil {
			return quorum.Lease{}, err
		}
		freed := qs.releasedBy(q) >= qs.majority
		lease, err := qs.try(q, want)
		if err == nil {
			q.granted(handed, want.TTL)
			return lease, nil
		}
		if freed {
			// another proxy was faster. Without a release the holder still has the lock
			q.handOvers = 0
		}
		handed, q.expiryKnown = true, false
		if err := qs.awaitRetry(q, w, limits, endless, err); err != nil {
			return quorum.Lease{}, err
		}
	}
}

// awaitRetry waits for the next attempt after one that failed with err. It returns an error if
// there must be none.
func (qs *Queues) awaitRetry(q *waitQueue, w *waiter, limits waitLimits, endless bool, err error) error {
	held, isHeld := errors.AsType[*quorum.HeldError](err)
	switch {
	case isHeld && !qs.subscribed(q):
		// a release before the subscription sends no message, so ask again
		return qs.subscribe(q, limits)
	case isHeld && held.Free >= 0:
		return qs.awaitWakeUp(q, limits, held.Free+time.Millisecond+rand.N(2*time.Millisecond))
	case isHeld:
		return qs.awaitWakeUp(q, limits, never)
	case endless && q.fault != nil && min(time.Since(q.faultSince), time.Since(w.joined)) >= qs.maxTTL:
		return err
	case errors.Is(err, quorum.ErrNoQuorum), errors.Is(err, quorum.ErrLate), errors.Is(err, quorum.ErrFence):
		q.delay = min(max(firstRetry, 2*q.delay), lastRetry)
		return limits.sleep(q.delay/2 + rand.N(q.delay/2))
	}
	return err
}

// try makes one attempt, and notes whether enough masters could be asked.
func (qs *Queues) try(q *waitQueue, want quorum.Request) (quorum.Lease, error) {
	select {
	case <-q.wakeUp: // it is older than this attempt
	default:
	}
	// The attempt does not run under the client's context: it ends with an answer.
	lease, err := qs.locker.Acquire(context.Background(), want)
	qs.mu.Lock()
	defer qs.mu.Unlock()
	if err == nil {
		for i := range q.released { // later messages about them are old news
			q.released[i].granted = true
		}
		q.lastFree = time.Time{}
	}
	switch {
	case !errors.Is(err, quorum.ErrNoQuorum):
		q.fault, q.delay = nil, 0
	case q.fault == nil:
		q.faultSince = time.Now()
		fallthrough
	default:
		q.fault = err
	}
	return lease, err
}

// join puts a new waiter at the end of the queue of key.
func (qs *Queues) join(key string) (*waitQueue, *waiter, error) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	if qs.waiting >= qs.max {
		return nil, nil, ErrFull
	}
	qs.waiting++
	q := qs.byKey[key]
	if q == nil {
		q = &waitQueue{key: key, wakeUp: make(chan struct{}, 1), history: qs.ended[key]}
		qs.byKey[key] = q
		delete(qs.ended, key)
	}
	w := &waiter{head: make(chan struct{}), joined: time.Now()}
	if q.waiters = append(q.waiters, w); len(q.waiters) == 1 {
		close(w.head)
	}
	return q, w, nil
}

// leave takes w out of its queue. If w was the head, the next waiter becomes the head. An empty
// queue ends.
func (qs *Queues) leave(q *waitQueue, w *waiter) {
	qs.mu.Lock()
	qs.waiting--
	at := 0
	for q.waiters[at] != w {
		at++
	}
	q.waiters[at] = nil
	if at == 0 {
		q.waiters = q.waiters[1:]
	} else {
		q.waiters = append(q.waiters[:at], q.waiters[at+1:]...)
	}
	var stop func()
	switch {
	case len(q.waiters) == 0:
		stop = q.stop
		delete(qs.byKey, q.key)
		qs.rememberLocked(q)
	case at == 0:
		close(q.waiters[0].head)
	}
	qs.mu.Unlock()
	if stop != nil {
		stop()
	}
}

func (qs *Queues) subscribed(q *waitQueue) bool {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	return q.stop != nil
}

// subscribe makes releases through other proxies wake the head. It returns when a majority of the
// masters has confirmed the subscription, or the wait ends.
func (qs *Queues) subscribe(q *waitQueue, limits waitLimits) error {
	ctx, cancel := context.WithCancel(limits.ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		stop := qs.locker.Watch(ctx, q.key, func(id string) { qs.notify(q.key, id, 1) })
		qs.mu.Lock()
		defer qs.mu.Unlock()
		q.stop = stop
	}()
	err := limits.wait(done, nil)
	cancel()
	<-done // Watch returns when ctx ends; the subscription stays
	return err
}

// maxReleases is how many releases of a key a queue remembers.
const maxReleases = 8

// Released wakes the waiters of key, as the token with that secret is released. The release must
// reach each master before any later question.
func (qs *Queues) Released(key, secret string) {
	qs.mu.Lock()
	waited := qs.byKey[key] != nil
	qs.mu.Unlock()
	if waited { // a client that joins later asks later
		qs.notify(key, quorum.ReleaseID(secret), qs.majority)
	}
}

// Wake wakes the waiters of key, as it may be free.
func (qs *Queues) Wake(key string) { qs.notify(key, "", 1) }

// notify wakes the head at the first message about a release, and again when a majority of the
// masters has sent one.
func (qs *Queues) notify(key, id string, masters int) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	q := qs.byKey[key]
	if q == nil {
		return
	}
	if id != "" {
		at := slices.IndexFunc(q.released, func(r release) bool { return r.id == id })
		if at < 0 {
			if len(q.released) == maxReleases {
				q.released = append(q.released[:0], q.released[1:]...)
			}
			at = len(q.released)
			q.released = append(q.released, release{id: id})
		}
		r := &q.released[at]
		before := r.masters
		r.masters += masters
		if r.granted || before != 0 && (before >= qs.majority || r.masters < qs.majority) {
			return
		}
	}
	q.lastFree = time.Now()
	select {
	case q.wakeUp <- struct{}{}:
	default:
	}
}

// Waiters returns how many clients wait for key.
func (qs *Queues) Waiters(key string) int {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	if q := qs.byKey[key]; q != nil {
		return len(q.waiters)
	}
	return 0
}

// SetMax changes how many clients may wait at a time. Those that wait already go on.
func (qs *Queues) SetMax(n int) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	qs.max = n
}

// Drain ends the wait of all clients, now and later, with ErrDraining. It may be called once.
func (qs *Queues) Drain() { close(qs.draining) }
