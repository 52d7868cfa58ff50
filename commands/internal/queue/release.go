package queue

import (
	"context"
	"slices"
	"sync"

	"lockproxy/quorum"
)

// maxReleases is how many releases of a key a queue remembers.
const maxReleases = 8

// release is one release of the key. Each master that held the token sends a message as soon as it
// has released it. After the first message a majority may still hold the key; after messages of a
// majority, or a release through this proxy, no majority holds it with this token.
type release struct {
	id       string
	messages int
	here     bool // through this proxy
	granted  bool // the lock has been granted exclusively since
}

// Released wakes the waiters of key, as the token with that secret is released, or shares the lock
// from now on. That must reach each master before any later question.
func (qs *Queues) Released(key, secret string) {
	qs.mu.Lock()
	waited := qs.byKey[key] != nil
	qs.mu.Unlock()
	if waited { // a client that joins later asks later
		qs.notify(key, quorum.ReleaseID(secret), true)
	}
}

// Wake wakes the waiters of key, as it may be free.
func (qs *Queues) Wake(key string) { qs.notify(key, "", false) }

// notify wakes the first waiter of key at the first message about a release, and again when it is
// carried out: when a majority of the masters has sent one, or here is true. A waiter that does not
// lead yet asks when it does.
func (qs *Queues) notify(key, id string, here bool) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	q := qs.byKey[key]
	if q == nil || id != "" && !qs.isNewsLocked(q, id, here) {
		return
	}
	q.freeLocked()
	q.waiters[0].wake()
}

// isNewsLocked notes one more message about a release, or that it is carried out here. It reports
// whether an attempt may succeed now that failed before.
func (qs *Queues) isNewsLocked(q *waitQueue, id string, here bool) bool {
	at := slices.IndexFunc(q.released, func(r release) bool { return r.id == id })
	if at < 0 {
		if len(q.released) == maxReleases {
			q.released = slices.Delete(q.released, 0, 1)
		}
		at = len(q.released)
		q.released = append(q.released, release{id: id})
	}
	r := &q.released[at]
	if here && r.here || !here && r.messages == qs.masters {
		// What came before told that the holder shares the lock. Now it releases its share.
		*r = release{id: id, granted: r.granted}
	}
	before := qs.carriedOut(*r)
	if here {
		r.here = true
	} else {
		r.messages++
	}
	return !r.granted && (before == 0 || before < qs.majority && qs.carriedOut(*r) >= qs.majority)
}

// carriedOut returns how many masters are known to have carried out r.
func (qs *Queues) carriedOut(r release) int {
	if r.here {
		return max(r.messages, qs.majority)
	}
	return r.messages
}

// freed reports whether a majority has released a key of w since the last exclusive grant here.
func (qs *Queues) freed(w *waiter) bool {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	freed := func(r release) bool { return !r.granted && qs.carriedOut(r) >= qs.majority }
	return slices.ContainsFunc(w.queues, func(q *waitQueue) bool {
		return slices.ContainsFunc(q.released, freed)
	})
}

// unsubscribed returns the queues of w that hear of no releases through other proxies yet.
func (qs *Queues) unsubscribed(w *waiter) (without []*waitQueue) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	for _, q := range w.queues {
		if q.stop == nil {
			without = append(without, q)
		}
	}
	return without
}

// subscribe makes releases of all keys of w through other proxies wake the first waiters. It
// returns when a majority of the masters has confirmed the subscriptions, or the wait ends.
func (qs *Queues) subscribe(w *waiter, limits waitLimits) error {
	ctx, cancel := context.WithCancel(limits.ctx)
	var wg sync.WaitGroup
	for _, q := range qs.unsubscribed(w) {
		wg.Go(func() {
			stop := qs.watcher.Watch(ctx, q.key, func(id string) { qs.notify(q.key, id, false) })
			qs.mu.Lock()
			defer qs.mu.Unlock()
			q.stop = stop
		})
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		wg.Wait()
	}()
	err := limits.wait(done, nil)
	cancel()
	<-done // Watch returns when ctx ends; the subscriptions stay
	return err
}
