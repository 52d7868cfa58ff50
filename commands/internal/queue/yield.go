package queue

import (
	"math/rand/v2"
	"time"
)

const (
	// maxHandOvers is how often in a row clients of this proxy get the lock before other proxies
	// get a chance.
	maxHandOvers = 16
	// peerPause bounds the pause that gives other proxies their chance. It is at least half as
	// long.
	peerPause = 8 * time.Millisecond
	// maxEnded bounds how many queues that have ended are remembered.
	maxEnded = 1024
)

// history is what a queue leaves to the next queue of its key. Where two clients take turns, each
// grant ends the queue.
type history struct {
	released  []release // the last ones; guarded by Queues.mu
	handOvers int       // grants in a row to clients of this proxy; used by the head only
	expires   time.Time // when the last of these grants runs out; used by the head only
}

// yieldToPeers pauses once after maxHandOvers grants in a row, if the lock is free: while it is
// held, other proxies could not get it either.
func (qs *Queues) yieldToPeers(q *waitQueue, limits waitLimits) error {
	if q.handOvers < maxHandOvers || time.Now().Before(q.expires) && qs.releasedBy(q) == 0 {
		return nil
	}
	q.handOvers = 0
	return limits.sleep(peerPause/2 + rand.N(peerPause/2))
}

// granted notes that the head has the lock for ttl. handed says that it had to wait: a lock that
// was free is taken from nobody.
func (q *waitQueue) granted(handed bool, ttl time.Duration) {
	if handed {
		q.handOvers++
	} else {
		q.handOvers = 0
	}
	q.expiryKnown, q.expires = true, time.Now().Add(ttl)
}

// releasedBy returns how many masters have sent a message about a release since the last grant
// here.
func (qs *Queues) releasedBy(q *waitQueue) (masters int) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	for _, r := range q.released {
		if !r.granted {
			masters = max(masters, r.masters)
		}
	}
	return masters
}

// rememberLocked keeps the history of a queue that ends.
func (qs *Queues) rememberLocked(q *waitQueue) {
	if q.handOvers == 0 {
		return
	}
	if len(qs.ended) >= maxEnded {
		clear(qs.ended) // a missed pause now and then does no harm
	}
	qs.ended[q.key] = q.history
}
