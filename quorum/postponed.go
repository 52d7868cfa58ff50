package quorum

import (
	"sync"
	"time"
)

// postponed is what is to be done when every Release that had begun by then has its answer, in the order in which it came. It waits for all
// the same time, so one timer is enough. Safe for concurrent use.
type postponed struct {
	mu    sync.Mutex
	calls []postponedCall
}

type postponedCall struct {
	due time.Time
	f   func()
}

// afterReleases calls f when every Release that has begun by now has its answer. Close waits for that.
func (q *Quorum) afterReleases(f func()) {
	q.enter()
	wait := q.releaseTime()
	p := &q.postponed
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls = append(p.calls, postponedCall{time.Now().Add(wait), f})
	if len(p.calls) == 1 {
		time.AfterFunc(wait, q.runPostponed)
	}
}

// runPostponed calls those that are due, and comes back for the others.
func (q *Quorum) runPostponed() {
	p := &q.postponed
	p.mu.Lock()
	now, n := time.Now(), 0
	for n < len(p.calls) && !now.Before(p.calls[n].due) {
		n++
	}
	ready := p.calls[:n]
	if p.calls = p.calls[n:]; len(p.calls) > 0 { // not copied, as thousands may wait; append does so now and then
		time.AfterFunc(p.calls[0].due.Sub(now), q.runPostponed)
	}
	p.mu.Unlock()
	for _, c := range ready {
		c.f()
		q.leave()
	}
	clear(ready) // what waits keeps its memory
}
