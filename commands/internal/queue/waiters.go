package queue

import (
	"net"
	"slices"
	"time"

	"lockproxy/quorum"
)

// maxInvited bounds how many shared clients ask side by side. A lane to a master takes 4,096
// commands.
const maxInvited = 512

// waitQueue holds the waiters for one key. Its fields are guarded by Queues.mu.
type waitQueue struct {
	key     string
	waiters []*waiter // in order of arrival
	history

	stop      func()    // ends the subscription; nil without one
	lastFree  time.Time // the last sign that the key is free, unless an exclusive grant followed
	mayBeFree bool      // there was such a sign since the last grant here
	heldUntil time.Time // when the lock that was granted here runs out; zero if not known

	fault      error // the leader's last attempt found too few masters, or was too late
	faultSince time.Time
	delay      time.Duration // the last one between attempts
}

// waiter is one client that waits for one key, or for several at once.
type waiter struct {
	want   quorum.Request
	from   net.Addr     // of the client; nil: not known
	queues []*waitQueue // of all its keys, without duplicates
	joined time.Time
	until  time.Time     // when it leaves; zero: it waits for ever
	wakeUp chan struct{} // capacity 1: leads or invited has changed, or a key of its may be free

	// Guarded by Queues.mu.
	leads   bool // it is first in all its queues, and stays so
	invited bool // it asks beside others, also if it does not lead
	granted bool

	waited bool // it came behind another client, or has asked before. Used by itself only
}

// remaining is how long w still waits; never for ever.
func (w *waiter) remaining() time.Duration {
	if w.until.IsZero() {
		return never
	}
	return max(time.Until(w.until), time.Millisecond)
}

func (w *waiter) wake() {
	select {
	case w.wakeUp <- struct{}{}:
	default:
	}
}

// join puts a new waiter at the end of the queues of all its keys.
func (qs *Queues) join(from net.Addr, want quorum.Request) (*waiter, error) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	if qs.waiting >= qs.max {
		return nil, ErrFull
	}
	qs.waiting++
	w := &waiter{want: want, from: from, joined: time.Now(), wakeUp: make(chan struct{}, 1)}
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

func (w *waiter) isFirstLocked() bool {
	return !slices.ContainsFunc(w.queues, func(q *waitQueue) bool { return q.waiters[0] != w })
}

// leave takes w out of its queues. Who is first in all its queues then, leads. An empty queue ends.
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
		if w.granted && w.leads && !w.invited { // else those behind it ask already
			q.inviteLocked(w.want.Mode)
		}
	}
	qs.mu.Unlock()
	for _, stop := range stops {
		stop()
	}
}

// inviteLocked lets the shared waiters at the front of q ask once, side by side, as the one before
// them got the lock in that mode. Where there are more than maxInvited, the first of the others
// invites them when it got the lock in turn.
func (q *waitQueue) inviteLocked(mode quorum.Mode) {
	for i, w := range q.waiters {
		if mode != quorum.Shared || w.want.Mode != mode || i == maxInvited {
			return
		}
		w.invited = true
		w.wake()
	}
}

// turn reports whether w leads, and whether it is invited.
func (qs *Queues) turn(w *waiter) (leads, invited bool) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	return w.leads, w.invited
}
