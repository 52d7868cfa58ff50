package compare

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lockproxy/integration/history"
)

// A resource that the lock guards, with clients that sometimes pause for longer than the ttl
// between their last look at the clock and their write: stopped by their system, or slow at work.

const (
	updateTTL   = time.Second
	updatePause = 1500 * time.Millisecond
	updaters    = 8
)

func lostPlain(t *testing.T, s subject, size size) tally {
	return lostUpdates(t, s, size, &history.Register{})
}

func lostFenced(t *testing.T, s subject, size size) tally {
	return lostUpdates(t, s, size, &history.Register{Fenced: true})
}

// lostUpdates lets eight clients read, work and write under the lock, and counts accepted writes
// that are missing in the result.
func lostUpdates(t *testing.T, s subject, size size, resource *history.Register) tally {
	clients := begin(t, s, plain(t, 3, 5*time.Second), updaters/2)
	end := time.Now().Add(size.updating)
	var turn, accepted atomic.Int32
	var wg sync.WaitGroup
	for i := range updaters {
		wg.Go(func() {
			for time.Now().Before(end) {
				if update(clients[i%2], resource, end, &turn) {
					accepted.Add(1)
				}
			}
		})
	}
	wg.Wait()
	lost, refused := resource.Lost()
	t.Logf("%s: %d writes accepted, %d of them lost, %d reads and writes refused", s.name, accepted.Load(), lost, refused)
	return tally{bad: lost, tries: int(accepted.Load())}
}

// update reads, works and writes the value plus one; every sixth call pauses before it writes. It
// reports whether the resource accepted the write.
func update(c client, resource *history.Register, end time.Time, turn *atomic.Int32) bool {
	g, ok := lockBy(c, "resource", updateTTL, end)
	if !ok {
		return false
	}
	value, ok := resource.Read(g.fence)
	work := 5 * time.Millisecond
	if turn.Add(1)%6 == 3 {
		work = updatePause
	}
	<-time.After(work)
	written := ok && resource.Write(value+1, g.fence, nil)
	_ = c.unlock(g) // after a pause there is no lock left
	return written
}
