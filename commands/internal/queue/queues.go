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
	// slowTimer is how long the head of a line waits at most before it asks the masters again, should every word of a release be lost.
	pollEvery = time.Second
	never     = time.Duration(math.MaxInt64)
	// firstRetry and lastRetry bound the growing delay between tries while the masters cannot be asked.
	firstRetry = 20 * time.Millisecond
	lastRetry  = time.Second
)

var (
	ErrFull         = errors.New("too many waiters")
	ErrTimeout      = errors.New("timeout")
	ErrDisconnected = errors.New("the client left")
)

// lines are the waiting lines of this proxy: one for each key that somebody waits for, first come, first served. Only the head of a
// line asks the masters.
//
// A line subscribes to releases of its key after the first try that failed, and its head tries again after that: what is released later is
// heard of. From then on the head is woken by a release, through this proxy or another, by the holder's expiry, or by slowTimer. A head that
// was granted the lock leaves; its successor waits without asking if the line has subscribed, as nothing can be had before the next
// release or expiry.
type Queues struct {
	locker   Locker
	maxTTL   time.Duration
	majority int // of the masters

	mu       sync.Mutex
	max      int
	byKey    map[string]*waitQueue
	waiting  int
	ended    map[string]history // of lines that ended with a hand-over
	draining chan struct{}      // closed when all waiters are to be answered
}

// line is the waiters for one key.
type waitQueue struct {
	key    string
	wakeUp chan struct{} // capacity 1: the key may be free
	history

	// Guarded by lines.mu.
	waiters  []*waiter // the first is the head
	stop     func()    // ends the subscription; nil without one
	lastFree time.Time // the last that the key is free, which nobody followed to a grant

	// Used by the head only.
	expiryKnown bool  // free is known: the next head need not ask first
	fault       error // the last try found too few masters
	faultSince  time.Time
	delay       time.Duration
}

// release is one release of the key. Each master that had the token tells of it, as soon as it is released there: the first word may
// come too early to get a majority, the majority-th does not.
type release struct {
	id      string
	masters int  // masters
	granted bool // the lock has been granted since
}

// waiter is one client in a line.
type waiter struct {
	head   chan struct{} // closed when it becomes the head
	joined time.Time
}

// queueLocker asks the masters for locks, and hears of releases; *quorum.Quorum is one.
type Locker interface {
	Acquire(ctx context.Context, want quorum.Request) (quorum.Lease, error)
	Watch(ctx context.Context, key string, released func(id string)) (stop func())
}

func New(locker Locker, masters, max int, maxTTL time.Duration) *Queues {
	return &Queues{locker: locker, max: max, maxTTL: maxTTL, majority: masters/2 + 1,
		byKey: make(map[string]*waitQueue), ended: make(map[string]history), draining: make(chan struct{})}
}

// wait gets the lock for a client that stands in line, or fails: with errTimeout after timeout (0: none), errLeft when gone is closed,
// errQueueFull, context.Cause(ctx), or a *quorum.NoQuorumError where at the time-out the masters could not be asked.
func (ls *Queues) Wait(ctx context.Context, gone <-chan struct{}, timeout time.Duration, want quorum.Request) (quorum.Lease, error) {
	l, w, err := ls.join(want.Key)
	if err != nil {
		return quorum.Lease{}, err
	}
	defer ls.leave(l, w)
	p := waitLimits{ctx: ctx, gone: gone, draining: ls.draining}
	if timeout > 0 {
		timer := time.NewTimer(timeout)
		defer timer.Stop()
		p.timeout = timer.C
	}
	if err := p.until(w.head); err != nil {
		return quorum.Lease{}, ls.timeoutError(l, err)
	}
	lease, err := ls.lead(l, w, p, timeout == 0, want)
	if err != nil {
		l.expiryKnown = false // a signal may have been taken and not been followed
	}
	return lease, ls.timeoutError(l, err)
}

// verdict turns a time-out into what it is to be called.
func (ls *Queues) timeoutError(l *waitQueue, err error) error {
	if err != ErrTimeout {
		return err
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if l.fault != nil {
		return l.fault
	}
	return err
}

// lead is what the head does: ask, and wait for the next chance, until it is granted the lock or gives up.
func (ls *Queues) lead(l *waitQueue, w *waiter, p waitLimits, endless bool, want quorum.Request) (quorum.Lease, error) {
	handed := l.expiryKnown // else the lock may have been free all along
	for ask := !l.expiryKnown || !ls.subscribed(l); ; ask = true {
		if !ask {
			if err := ls.awaitWakeUp(l, p, time.Until(l.expires)); err != nil {
				return quorum.Lease{}, err
			}
		}
		if err := ls.yieldToPeers(l, p); err != nil {
			return quorum.Lease{}, err
		}
		freed := ls.releasedBy(l) >= ls.majority
		lease, err := ls.try(l, want)
		if err == nil {
			l.granted(handed, want.TTL)
			return lease, nil
		}
		if freed {
			l.handOvers = 0 // another proxy was faster; what the slow timer finds is the holder still
		}
		handed, l.expiryKnown = true, false
		held, isHeld := errors.AsType[*quorum.HeldError](err)
		switch {
		case isHeld && !ls.subscribed(l):
			if err = ls.subscribe(l, p); err == nil {
				continue // what was released before the subscription is not heard of
			}
		case isHeld:
			wait := never
			if held.Free >= 0 {
				wait = held.Free + time.Millisecond + rand.N(2*time.Millisecond)
			}
			err = ls.awaitWakeUp(l, p, wait)
		case endless && l.fault != nil && min(time.Since(l.faultSince), time.Since(w.joined)) >= ls.maxTTL:
			return lease, err
		case errors.Is(err, quorum.ErrNoQuorum), errors.Is(err, quorum.ErrLate), errors.Is(err, quorum.ErrFence):
			l.delay = min(max(firstRetry, 2*l.delay), lastRetry)
			err = p.sleep(l.delay/2 + rand.N(l.delay/2))
		}
		if err != nil {
			return lease, err
		}
	}
}

// try asks the masters once, and notes whether they could be asked.
func (ls *Queues) try(l *waitQueue, want quorum.Request) (quorum.Lease, error) {
	select {
	case <-l.wakeUp: // of before
	default:
	}
	// Not the client's context: an attempt that is being decided is answered.
	lease, err := ls.locker.Acquire(context.Background(), want)
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if err == nil {
		for i := range l.released { // what else is told of them is no news
			l.released[i].granted = true
		}
		l.lastFree = time.Time{}
	}
	switch {
	case !errors.Is(err, quorum.ErrNoQuorum):
		l.fault, l.delay = nil, 0
	case l.fault == nil:
		l.faultSince = time.Now()
		fallthrough
	default:
		l.fault = err
	}
	return lease, err
}

// join puts a new waiter at the end of the line for key.
func (ls *Queues) join(key string) (*waitQueue, *waiter, error) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.waiting >= ls.max {
		return nil, nil, ErrFull
	}
	ls.waiting++
	l := ls.byKey[key]
	if l == nil {
		l = &waitQueue{key: key, wakeUp: make(chan struct{}, 1), history: ls.ended[key]}
		ls.byKey[key] = l
		delete(ls.ended, key)
	}
	w := &waiter{head: make(chan struct{}), joined: time.Now()}
	if l.waiters = append(l.waiters, w); len(l.waiters) == 1 {
		close(w.head)
	}
	return l, w, nil
}

// leave takes w out of its line. The next one becomes the head, if w was; an empty line is given up.
func (ls *Queues) leave(l *waitQueue, w *waiter) {
	ls.mu.Lock()
	ls.waiting--
	at := 0
	for l.waiters[at] != w {
		at++
	}
	l.waiters[at] = nil
	if at == 0 {
		l.waiters = l.waiters[1:]
	} else {
		l.waiters = append(l.waiters[:at], l.waiters[at+1:]...)
	}
	var stop func()
	switch {
	case len(l.waiters) == 0:
		stop = l.stop
		delete(ls.byKey, l.key)
		ls.rememberLocked(l)
	case at == 0:
		close(l.waiters[0].head)
	}
	ls.mu.Unlock()
	if stop != nil {
		stop()
	}
}

func (ls *Queues) subscribed(l *waitQueue) bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return l.stop != nil
}

// subscribe makes releases through other proxies wake the head. It returns when enough masters have confirmed, or could have; or when the
// client waits no longer.
func (ls *Queues) subscribe(l *waitQueue, p waitLimits) error {
	ctx, cancel := context.WithCancel(p.ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		stop := ls.locker.Watch(ctx, l.key, func(id string) { ls.notify(l.key, id, 1) })
		ls.mu.Lock()
		defer ls.mu.Unlock()
		l.stop = stop
	}()
	err := p.wait(done, nil)
	cancel()
	<-done // Watch returns at once when ctx ends, and the subscription stands
	return err
}

// rememberReleases is how many releases of a key a line remembers.
const maxReleases = 8

// freed tells the waiters of key that the token with that secret is released, or is about to be before
// anything that they ask the masters from here on.
func (ls *Queues) Released(key, secret string) {
	ls.mu.Lock()
	waited := ls.byKey[key] != nil
	ls.mu.Unlock()
	if waited { // who comes later asks later
		ls.notify(key, quorum.ReleaseID(secret), ls.majority)
	}
}

// wakeUp tells the waiters of key that it may be free.
func (ls *Queues) Wake(key string) { ls.notify(key, "", 1) }

// told wakes the head at the first word of a release, and once more when a majority has told of it.
func (ls *Queues) notify(key, id string, masters int) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l := ls.byKey[key]
	if l == nil {
		return
	}
	if id != "" {
		at := slices.IndexFunc(l.released, func(r release) bool { return r.id == id })
		if at < 0 {
			if len(l.released) == maxReleases {
				l.released = append(l.released[:0], l.released[1:]...)
			}
			at = len(l.released)
			l.released = append(l.released, release{id: id})
		}
		r := &l.released[at]
		before := r.masters
		r.masters += masters
		if r.granted || before != 0 && (before >= ls.majority || r.masters < ls.majority) {
			return
		}
	}
	l.lastFree = time.Now()
	select {
	case l.wakeUp <- struct{}{}:
	default:
	}
}

// count returns how many wait for key.
func (ls *Queues) Waiters(key string) int {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if l := ls.byKey[key]; l != nil {
		return len(l.waiters)
	}
	return 0
}

func (ls *Queues) SetMax(n int) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.max = n
}

// drain answers all waiters, and all that come, as if their time were up. It may be called once.
func (ls *Queues) Drain() { close(ls.draining) }
