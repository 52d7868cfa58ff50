package locks

import (
	"testing"
	"time"

	"lockproxy/integration/history"
	"lockproxy/integration/lab"
)

// TestReadersLetAWriterIn: 64 readers come and go through two proxies, so that some of them hold
// the lock all the time. A writer that waits is granted it while they go on, through either proxy,
// every time.
func TestReadersLetAWriterIn(t *testing.T) {
	t.Parallel()
	const readers, rounds, ttl = 64, 4, time.Second
	c := startCrowd(t)
	data := []string{"data"}
	c.start(0, readers, func(m *member) bool { return m.read(data, ttl) })
	var took, late []time.Duration
	for round := range rounds {
		desk := []*lab.Client{c.Near, c.Far}[round%2]
		most := 0
		lab.WaitFor(t, "many readers", lab.Patience, func() bool {
			if info := lab.MapOf(desk.Do("LOCKINFO", "data")); info["mode"] == "shared" {
				most = lab.Number(t, info["holders"])
			}
			return most >= readers/8
		})
		writer := c.join(readers + round)
		start, asked := time.Now(), c.log.Now()
		h, ok := writer.lock(30*time.Second, data, history.Exclusive, 0, true)
		if took = append(took, time.Since(start)); !ok {
			break
		}
		late = append(late, c.lastReader(asked))
		writer.sleep(20 * time.Millisecond)
		writer.unlock(h)
		writer.conn.Close()
	}
	c.end()
	t.Logf("the writer waited %v; readers were let in for %v of that", took, late)
	if len(late) < rounds {
		t.Errorf("the writer was let in %d times of %d", len(late), rounds)
	}
	c.wantLegal()
}

// lastReader is how long after asked a reader was still let in.
func (c *crowd) lastReader(asked time.Duration) (late time.Duration) {
	for _, o := range c.log.Ops() {
		if o.Kind == history.Lock && o.Mode == history.Shared {
			late = max(late, o.Return-asked)
		}
	}
	return late
}

// read is a reader that asks now and then, or waits. Those that do not wait let every other lock
// run out, as they know when.
func (m *member) read(keys []string, ttl time.Duration) bool {
	waits := m.id%4 < 2 // through either proxy
	h, ok := m.lock(ttl, keys, history.Shared, 0, waits)
	if !ok || h == nil {
		m.sleep(20*time.Millisecond + m.upTo(80*time.Millisecond))
		return ok
	}
	if !waits && m.IntN(2) == 0 {
		m.sleep(h.ops[0].Until() - m.c.log.Now())
		return true
	}
	m.sleep(m.upTo(ttl / 5))
	return m.unlock(h)
}
