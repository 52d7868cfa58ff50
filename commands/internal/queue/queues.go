// Package queue decides which client of this proxy asks the masters for a lock next: see [Queues].
package queue

import (
	"cmp"
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"lockproxy/quorum"
	"lockproxy/stat"
)

// maxEnded bounds how many queues that have ended are remembered.
const maxEnded = 1024

// What Wait fails with, beside the errors of the masters.
var (
	ErrFull         = errors.New("too many waiters")
	ErrTimeout      = errors.New("timeout")
	ErrDraining     = errors.New("the proxy is ending")
	ErrDisconnected = errors.New("the client left")
)

// Queues are the wait queues of this proxy, one for each key that a client waits for. They are
// served in order of arrival, in all modes. Only a client that leads asks the masters: one
// that is first in the queues of all its keys. As a client enters all of them at once, the one
// that came first of all leads, and there is no deadlock.
//
// A queue subscribes to releases of its key after the first attempt that failed. Then the leader
// tries again, because it may have missed a release. From then on these wake it: a release
// through any proxy, the expiry of the holder's lock, and pollEvery. A leader that gets the lock
// leaves. The next one acts by the mode of the lock:
//   - Exclusive: if the queue has subscribed it waits for the next release or expiry before it
//     asks.
//   - Shared, Limited: it asks at once. There may be room for it; if not, the masters record its
//     intent, which keeps holders of another mode from joining.
//
// After a shared grant all shared clients up to the first of another mode ask at once, see
// inviteLocked.
type Queues struct {
	locker  Acquirer
	watcher KeyWatcher
	maxTTL  time.Duration
	masters int // how many there are

	mu       sync.Mutex
	max      int
	byKey    map[string]*waitQueue
	waiting  int
	ended    map[string]history // of queues that ended after hand-overs
	draining chan struct{}      // closed by Drain
}

// KeyWatcher subscribes to releases. *quorum.Quorum is one.
type KeyWatcher interface {
	Watch(ctx context.Context, key string, released func(id string)) (stop func())
}

// New returns queues without waiters. masters is how many masters there are, max how many
// clients may wait at a time, maxTTL the longest ttl of a lock.
func New(locker Acquirer, watcher KeyWatcher, masters, max int, maxTTL time.Duration) *Queues {
	return &Queues{locker: locker, watcher: watcher, max: max, maxTTL: maxTTL, masters: masters,
		byKey: make(map[string]*waitQueue), ended: make(map[string]history),
		draining: make(chan struct{})}
}

// Wait joins the queues of want.Key and want.Keys and returns when the client has the lock, or
// with an error: ErrTimeout after timeout (0: none), ErrDisconnected when disconnected is closed,
// ErrDraining, ErrFull, context.Cause(ctx), or a *quorum.NoQuorumError if the masters could not be
// asked when the time was up. Without a timeout it is what attempts have failed with for maxTTL.
// It sets want.Waits itself. from is the client's address for operators; it may be nil.
func (qs *Queues) Wait(ctx context.Context, disconnected <-chan struct{}, timeout time.Duration,
	from net.Addr, want quorum.Request) (quorum.Lease, error) {
	w, err := qs.join(from, want, waitLimits{ctx: ctx, disconnected: disconnected, draining: qs.draining})
	if err != nil {
		return quorum.Lease{}, err
	}
	defer qs.leave(w)
	if timeout > 0 {
		w.until = w.joined.Add(timeout)
		timer := time.NewTimer(timeout)
		defer timer.Stop()
		w.limits.timeout = timer.C
	}
	lease, err := w.follow()
	return lease, w.timeoutError(err)
}

// join puts a new waiter at the end of the queues of all its keys.
func (qs *Queues) join(from net.Addr, want quorum.Request, limits waitLimits) (*waiter, error) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	if qs.waiting >= qs.max {
		return nil, ErrFull
	}
	qs.waiting++
	w := &waiter{qs: qs, limits: limits, want: want, from: from, joined: time.Now(),
		wakeUp: make(chan struct{}, 1)}
	qs.enterLocked(w, want.Key)
	for _, key := range want.Keys {
		qs.enterLocked(w, key)
	}
	w.leads = w.isFirstLocked()
	w.waited = !w.leads
	return w, nil
}

func (qs *Queues) enterLocked(w *waiter, key string) {
	q := qs.byKey[key]
	if q == nil {
		q = &waitQueue{key: key, history: qs.ended[key]}
		qs.byKey[key] = q
		delete(qs.ended, key)
	}
	if !slices.Contains(w.queues, q) {
		w.queues = append(w.queues, q)
		q.waiters = append(q.waiters, w)
	}
}

// leave takes w out of its queues. Who is first in all its queues then, leads. An empty queue
// ends.
func (qs *Queues) leave(w *waiter) {
	var stops []func()
	qs.mu.Lock()
	qs.waiting--
	for _, q := range w.queues {
		at := slices.Index(q.waiters, w)
		q.waiters = slices.Delete(q.waiters, at, at+1)
	}
	for _, q := range w.queues {
		if len(q.waiters) == 0 {
			if q.stop != nil {
				stops = append(stops, q.stop)
			}
			delete(qs.byKey, q.key)
			qs.rememberLocked(q)
			continue
		}
		if next := q.waiters[0]; !next.leads && next.isFirstLocked() {
			next.leads = true
			next.wake()
		}
		if w.granted && w.leads && !w.invited { // else the ones after it ask already
			q.inviteLocked(w.want.Mode)
		}
	}
	qs.mu.Unlock()
	for _, stop := range stops {
		stop()
	}
}

// rememberLocked keeps the history of a queue that ends.
func (qs *Queues) rememberLocked(q *waitQueue) {
	if q.streak.handOvers == 0 {
		return
	}
	if len(qs.ended) >= maxEnded {
		clear(qs.ended) // a missed pause now and then does no harm
	}
	qs.ended[q.key] = q.history
}

// Released wakes the waiters of key, because the token with that secret is released. That must
// reach each master before any later request.
func (qs *Queues) Released(key, secret string) {
	qs.mu.Lock()
	waited := qs.byKey[key] != nil
	qs.mu.Unlock()
	if waited { // a client that joins later asks later
		qs.notify(key, quorum.ReleaseID(secret), true)
	}
}

// Wake wakes the waiters of key, which may be free.
func (qs *Queues) Wake(key string) { qs.notify(key, "", false) }

// notify wakes the first waiter of key at the first message about a release, and again when it is
// finished: when a majority of the masters has sent one, or here is true. A waiter that does not
// lead yet asks when it does.
func (qs *Queues) notify(key, id string, here bool) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	q := qs.byKey[key]
	if q == nil || id != "" && !q.released.note(id, here, qs.masters) {
		return
	}
	q.availability.free(time.Now())
	q.waiters[0].wake()
}

// SetMax changes how many clients may wait at a time. Earlier clients go on waiting.
func (qs *Queues) SetMax(n int) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	qs.max = n
}

// Drain ends the wait of all clients, now and later, with ErrDraining. It may be called once.
func (qs *Queues) Drain() { close(qs.draining) }

// Longest returns keys with waiting clients, at most limit: half of them those with the longest
// waits, the longest first, then those with the most clients. A client that waits for several keys
// counts for each. The mutex is free while they are sorted.
func (qs *Queues) Longest(limit int) []stat.Waiting {
	now := time.Now()
	qs.mu.Lock()
	all := make([]stat.Waiting, 0, len(qs.byKey))
	for _, q := range qs.byKey {
		all = append(all, stat.Waiting{Key: q.key, Clients: len(q.waiters),
			Longest: now.Sub(q.waiters[0].joined)})
	}
	qs.mu.Unlock()
	slices.SortFunc(all, func(a, b stat.Waiting) int {
		return cmp.Or(cmp.Compare(b.Longest, a.Longest), cmp.Compare(b.Clients, a.Clients), strings.Compare(a.Key, b.Key))
	})
	if len(all) > limit {
		slices.SortStableFunc(all[(limit+1)/2:], func(a, b stat.Waiting) int { return cmp.Compare(b.Clients, a.Clients) })
		all = all[:limit]
	}
	qs.mu.Lock()
	defer qs.mu.Unlock()
	for i := range all {
		all[i].First = qs.firstLocked(all[i].Key, maxFirst, now)
	}
	return all
}

// maxFirst is how many clients of a queue Longest names.
const maxFirst = 8

// First returns the first clients that wait for key, in order, at most limit, and how many wait.
func (qs *Queues) First(key string, limit int) (first []stat.Waiter, waiting int) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	if q := qs.byKey[key]; q != nil {
		waiting = len(q.waiters)
	}
	return qs.firstLocked(key, limit, time.Now()), waiting
}

// firstLocked returns the first clients of a queue, at most limit; none if it has ended meanwhile.
func (qs *Queues) firstLocked(key string, limit int, now time.Time) []stat.Waiter {
	q := qs.byKey[key]
	if q == nil {
		return nil
	}
	first := make([]stat.Waiter, 0, min(len(q.waiters), limit))
	for _, w := range q.waiters[:cap(first)] {
		first = append(first, stat.Waiter{From: w.from, Owner: w.want.Owner, Mode: w.want.Mode.String(),
			Since: max(now.Sub(w.joined), 0)})
	}
	return first
}

// Waiters returns how many clients wait for key, alone or with others.
func (qs *Queues) Waiters(key string) int {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	if q := qs.byKey[key]; q != nil {
		return len(q.waiters)
	}
	return 0
}

// Total returns how many clients wait, and for how many keys.
func (qs *Queues) Total() (clients, keys int) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	return qs.waiting, len(qs.byKey)
}

// LongestWait returns how long the client that waits the longest has waited; 0: none waits.
func (qs *Queues) LongestWait() (longest time.Duration) {
	now := time.Now()
	qs.mu.Lock()
	defer qs.mu.Unlock()
	for _, q := range qs.byKey {
		longest = max(longest, now.Sub(q.waiters[0].joined))
	}
	return longest
}
