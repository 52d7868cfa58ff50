package locks

import (
	"slices"
	"testing"
	"time"

	"lockproxy/integration/history"
	"lockproxy/integration/lab"
)

// TestLimitOfTen: of 100 clients that want one of ten slots through two proxies never more than
// ten are in, and no slot is held twice. While others wait, the slots are in use.
func TestLimitOfTen(t *testing.T) {
	t.Parallel()
	const clients, limit = 100, 10
	c := startCrowd(t)
	c.start(0, clients, func(m *member) bool { return m.take(limit) })
	lab.Pass(t, 3*time.Second)
	c.end()
	most, usage := crowded(c.log.Ops(), limit)
	t.Logf("%d at once at most; the slots were in use for %.1f %% of the time", most, 100*usage)
	if most > limit {
		t.Errorf("%d held one of %d slots", most, limit)
	}
	if usage < 0.1 { // 0.95 on a machine with nothing else to do
		t.Errorf("the slots were in use for %.1f %% of the time while others waited", 100*usage)
	}
	c.wantLegal()
}

// TestLimitsThatDiffer: clients that name different limits for one key stay under their own, and
// all of them get their turns.
func TestLimitsThatDiffer(t *testing.T) {
	t.Parallel()
	c := startCrowd(t)
	limits := []int{2, 5, 10}
	c.start(0, 30, func(m *member) bool { return m.take(limits[m.id%len(limits)]) })
	lab.Pass(t, 2*time.Second)
	c.end()
	if most, _ := crowded(c.log.Ops(), 10); most > 10 {
		t.Errorf("%d at once", most)
	}
	grants := map[int]int{}
	for _, o := range c.log.Ops() {
		grants[o.Limit]++
	}
	t.Logf("grants by limit, and UNLOCKs: %v", grants)
	for _, n := range limits {
		if grants[n] == 0 {
			t.Errorf("no grant to those with LIMIT %d", n)
		}
	}
	c.wantLegal()
}

// take is a client that waits for a slot, works for a while and leaves.
func (m *member) take(limit int) bool {
	h, ok := m.lock(30*time.Second, []string{"pool"}, history.Limited, limit, true)
	if !ok {
		return false
	}
	m.sleep(50*time.Millisecond + m.upTo(50*time.Millisecond))
	return m.unlock(h)
}

// crowded tells how many were in at once at most, by the clocks of those who were, and which part
// of the slots was in use until the first left for good.
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
