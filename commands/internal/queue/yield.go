package queue

import (
	"math/rand/v2"
	"time"

	"lockproxy/quorum"
)

const (
	// maxHandOvers is how often in a row clients of this proxy get the lock before other proxies
	// get a chance. Where several hold it side by side, it counts for each slot.
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
	released  []release   // the last ones
	handOvers int         // grants in a row to clients of this proxy
	last      quorum.Mode // of these grants
}

// yieldToPeers pauses once after maxHandOvers grants in a row, if the lock may be free: while it is
// held, other proxies could not get it either.
func (qs *Queues) yieldToPeers(w *waiter, limits waitLimits) error {
	if !qs.endsRow(w) {
		return nil
	}
	return limits.sleep(peerPause/2 + rand.N(peerPause/2))
}

// endsRow reports whether w has to pause, and lets the next row begin. Shared clients take nothing
// from each other, and a waiter of another mode keeps them out with its intent, so they never
// pause.
func (qs *Queues) endsRow(w *waiter) (ends bool) {
	row := maxHandOvers
	switch w.want.Mode {
	case quorum.Shared:
		return false
	case quorum.Limited:
		row *= w.want.Limit
	}
	qs.mu.Lock()
	defer qs.mu.Unlock()
	for _, q := range w.queues {
		if q.handOvers >= row && q.mayBeFree {
			q.handOvers, ends = 0, true
		}
	}
	return ends
}

// countLocked counts a grant to w as a hand-over, if w had to wait: a lock that was free is taken
// from nobody. Shared grants do not count, see endsRow.
func (q *waitQueue) countLocked(w *waiter) {
	switch {
	case w.want.Mode == quorum.Shared:
	case w.waited:
		q.handOvers++
	default:
		q.handOvers = 0
	}
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
