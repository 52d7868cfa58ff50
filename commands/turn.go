package commands

import (
	"math/rand/v2"
	"time"
)

const (
	// inRow is how many times in a row a lock is handed over within this proxy before others get a turn.
	inRow = 16
	// turn bounds the pause in which others get their turn; it is at least half as long.
	turn = 8 * time.Millisecond
	// maxEnded bounds the memory of lines that have ended.
	maxEnded = 1024
)

// memory is what a line leaves to the next one of its key: where two clients hand a lock to each other the line ends with each grant.
type memory struct {
	released []release // the last ones that were heard of; guarded by lines.mu
	row      int       // how often the lock was handed over within this proxy without others having had it; used by the head only
	free     time.Time // when the last one of them runs out; used by the head only
}

// giveTurn pauses once after inRow hand-overs in a row, if the lock is to be had: while it is held the pause would be nobody's.
func (ls *lines) giveTurn(l *line, p patience) error {
	if l.row < inRow || time.Now().Before(l.free) && ls.freedBy(l) == 0 {
		return nil
	}
	l.row = 0
	return p.sleep(turn/2 + rand.N(turn/2))
}

// granted notes that the head has the lock, for ttl. handed: it had to wait for that. Who finds a lock free takes it from nobody.
func (l *line) granted(handed bool, ttl time.Duration) {
	if handed {
		l.row++
	} else {
		l.row = 0
	}
	l.asked, l.free = true, time.Now().Add(ttl)
}

// freedBy returns how many masters have told of a release since the lock was last granted here.
func (ls *lines) freedBy(l *line) (masters int) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for _, r := range l.released {
		if !r.over {
			masters = max(masters, r.told)
		}
	}
	return masters
}

// rememberLocked keeps the memory of a line that ends.
func (ls *lines) rememberLocked(l *line) {
	if l.row == 0 {
		return
	}
	if len(ls.ended) >= maxEnded {
		clear(ls.ended) // a pause that is missed now and then does no harm
	}
	ls.ended[l.key] = l.memory
}
