package queue

import (
	"math/rand/v2"
	"time"
)

const (
	// inRow is how many times in a row a lock is handed over within this proxy before others get a turn.
	maxHandOvers = 16
	// turn bounds the pause in which others get their turn; it is at least half as long.
	peerPause = 8 * time.Millisecond
	// maxEnded bounds the memory of lines that have ended.
	maxEnded = 1024
)

// memory is what a line leaves to the next one of its key: where two clients hand a lock to each other the line ends with each grant.
type history struct {
	released  []release // the last ones that were heard of; guarded by lines.mu
	handOvers int       // how often the lock was handed over within this proxy without others having had it; used by the head only
	expires   time.Time // when the last one of them runs out; used by the head only
}

// giveTurn pauses once after inRow hand-overs in a row, if the lock is to be had: while it is held the pause would be nobody's.
func (ls *Queues) yieldToPeers(l *waitQueue, p waitLimits) error {
	if l.handOvers < maxHandOvers || time.Now().Before(l.expires) && ls.releasedBy(l) == 0 {
		return nil
	}
	l.handOvers = 0
	return p.sleep(peerPause/2 + rand.N(peerPause/2))
}

// granted notes that the head has the lock, for ttl. handed: it had to wait for that. Who finds a lock free takes it from nobody.
func (l *waitQueue) granted(handed bool, ttl time.Duration) {
	if handed {
		l.handOvers++
	} else {
		l.handOvers = 0
	}
	l.expiryKnown, l.expires = true, time.Now().Add(ttl)
}

// freedBy returns how many masters have told of a release since the lock was last granted here.
func (ls *Queues) releasedBy(l *waitQueue) (masters int) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for _, r := range l.released {
		if !r.granted {
			masters = max(masters, r.masters)
		}
	}
	return masters
}

// rememberLocked keeps the memory of a line that ends.
func (ls *Queues) rememberLocked(l *waitQueue) {
	if l.handOvers == 0 {
		return
	}
	if len(ls.ended) >= maxEnded {
		clear(ls.ended) // a pause that is missed now and then does no harm
	}
	ls.ended[l.key] = l.history
}
