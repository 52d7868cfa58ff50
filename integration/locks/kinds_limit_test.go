package locks

import (
	"slices"
	"testing"
	"time"

	"lockproxy/integration/history"
	"lockproxy/integration/lab"
)

// TestLimitLetsTenIn: many clients of two proxies want one of ten slots. At most ten hold one at a
// time, no two the same, and the slots are in use while clients wait.
func TestLimitLetsTenIn(t *testing.T) {
	t.Parallel()
	const limit = 10
	clients, lasts := lab.Long(50, 100), lab.Long(2*time.Second, 3*time.Second)
	c := startCrowd(t)
	c.start(0, clients, func(m *member) bool { return m.take(limit) })
	var pairs []time.Duration // of LOCK and UNLOCK of a free key meanwhile
	for start := time.Now(); time.Since(start) < lasts; {
		asked := time.Now()
		c.Near.Unlock("free", c.Near.Lock("free", "60s"))
		pairs = append(pairs, time.Since(asked))
		lab.Pass(t, 20*time.Millisecond)
	}
	c.end()
	most, usage := crowded(c.log.Ops(), limit)
	t.Logf("at most %d clients at a time; the slots were in use for %.1f %% of the time", most, 100*usage)
	if most > limit {
		t.Errorf("clients in %d slots at a time: got %d", limit, most)
	}
	// A holder works for 75 ms, and a slot is idle for some round trips until the next has it. On
	// a quiet machine the slots are in use for 0.95 of the time. On a busy one a round trip takes
	// longer for everybody, so the bound falls with the pace of a free key.
	const work = 75 * time.Millisecond
	least := min(0.1, float64(work)/float64(work+20*lab.Median(pairs)))
	if usage < least {
		t.Errorf("use of the slots while clients waited: got %.1f %%, want at least %.1f %%", 100*usage, 100*least)
	}
	c.wantLegal()
}

// TestLimitsMayDiffer: clients that name different limits for one key stay under their own, and
// all of them get their turns.
func TestLimitsMayDiffer(t *testing.T) {
	t.Parallel()
	c := startCrowd(t)
	limits := []int{2, 5, 10}
	c.start(0, 30, func(m *member) bool { return m.take(limits[m.id%len(limits)]) })
	granted := func(limit int) bool {
		return slices.ContainsFunc(c.log.Ops(), func(o history.Op) bool {
			return o.Kind == history.Lock &&
				o.Limit == limit
		})
	}
	lab.Pass(t, lab.Long(time.Second, 2*time.Second))
	for _, n := range limits {
		if !lab.Poll(lab.Patience, func() bool { return granted(n) }) {
			t.Errorf("grants to clients with LIMIT %d: got none, want some", n)
		}
	}
	c.end()
	if most, _ := crowded(c.log.Ops(), 10); most > 10 {
		t.Errorf("clients at a time: got %d, want at most 10", most)
	}
	c.wantLegal()
}

// take waits for a slot, works for a while and leaves.
func (m *member) take(limit int) bool {
	h, ok := m.lock(30*time.Second, []string{"pool"}, history.Limited, limit, true)
	if !ok {
		return false
	}
	m.sleep(50*time.Millisecond + m.upTo(50*time.Millisecond))
	return m.unlock(h)
}

// crowded returns the highest number of clients that held a slot at a time, by their own clocks,
// and the share of the slots that was in use until the last LOCK that was granted.
func crowded(ops []history.Op, limit int) (most int, usage float64) {
	type step struct {
		at time.Duration
		by int
	}
	var steps []step
	var last time.Duration // grant
	for _, o := range ops {
		switch o.Kind {
		case history.Lock:
			steps = append(steps, step{o.Return, 1})
			last = max(last, o.Call)
		case history.Unlock:
			steps = append(steps, step{o.Call, -1})
		}
	}
	slices.SortFunc(steps, func(a, b step) int { return int(a.at - b.at) })
	in, used := 0, time.Duration(0)
	for i, s := range steps {
		if i > 0 && s.at <= last {
			used += time.Duration(in) * (s.at - steps[i-1].at)
		}
		in += s.by
		most = max(most, in)
	}
	return most, float64(used) / float64(time.Duration(limit)*(last-steps[0].at))
}
