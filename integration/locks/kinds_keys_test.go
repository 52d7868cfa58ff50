package locks

import (
	"fmt"
	"testing"
	"time"

	"lockproxy/integration/history"
	"lockproxy/integration/lab"
)

// TestLocksOfKeysDoNotDeadlock: dozens of workers of two proxies lock three of six keys at
// random, in any order. No two wait for each other, every worker has all its turns, and no key is
// left.
func TestLocksOfKeysDoNotDeadlock(t *testing.T) {
	t.Parallel()
	const keys = 6
	workers, turns := lab.Long(32, 64), lab.Long(6, 8)
	c := startCrowd(t)
	done := make([]int, workers)
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
	for id, n := range done {
		if n != turns {
			t.Errorf("turns of worker %d: got %d, want %d", id, n, turns)
		}
	}
	c.wantLegal()
}
