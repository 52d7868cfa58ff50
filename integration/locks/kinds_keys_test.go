package locks

import (
	"fmt"
	"testing"
	"time"

	"lockproxy/integration/history"
)

// TestThreeOfSixKeys: 64 workers of two proxies lock three of six keys at random, in any order.
// Nobody waits for somebody who waits for him, every worker has all its turns, and nothing is left.
func TestThreeOfSixKeys(t *testing.T) {
	t.Parallel()
	const workers, turns, keys = 64, 8, 6
	c := startCrowd(t)
	var done [workers]int
	start := time.Now()
	c.start(0, workers, func(m *member) bool {
		var three []string
		for _, k := range m.Perm(keys)[:3] {
			three = append(three, fmt.Sprint("key-", k))
		}
		h, ok := m.lock(40*time.Second, three, history.Exclusive, 0, true)
		if !ok {
			return false
		}
		m.sleep(m.upTo(4 * time.Millisecond))
		ok = m.unlock(h)
		done[m.id]++
		return ok && done[m.id] < turns
	})
	c.members.Wait()
	t.Logf("%d turns in %v", workers*turns, time.Since(start))
	for id, n := range done {
		if n != turns {
			t.Errorf("worker %d had %d turns, want %d", id, n, turns)
		}
	}
	c.wantLegal()
}
