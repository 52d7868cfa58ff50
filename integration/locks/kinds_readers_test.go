package locks

import (
	"testing"
	"time"

	"lockproxy/integration/history"
	"lockproxy/integration/lab"
)

// TestReadersLetAWriterIn: 64 readers come and go through two proxies, so that at every moment
// some hold the lock. A writer that waits gets it through either proxy, every time, while they go
// on.
func TestReadersLetAWriterIn(t *testing.T) {
	t.Parallel()
	const readers, ttl = 64, time.Second
	rounds := lab.Long(2, 4)
	c := startCrowd(t)
	data := []string{"data"}
	c.start(0, readers, func(m *member) bool { return m.read(data, ttl) })
	writes := 0
	for round := range rounds {
		desk := []*lab.Client{c.Near, c.Far}[round%2]
		most := 0
		lab.WaitFor(t, "an eighth of the readers in the lock", lab.Patience, func() bool {
			if info := lab.MapOf(desk.Do("LOCKINFO", "data")); info["mode"] == "shared" {
				most = lab.Number(t, info["holders"])
			}
			return most >= readers/8
		})
		writer := c.join(readers + round)
		h, ok := writer.lock(30*time.Second, data, history.Exclusive, 0, true)
		if !ok {
			break
		}
		writes++
		writer.sleep(20 * time.Millisecond)
		writer.unlock(h)
		writer.conn.Close()
	}
	c.end()
	if writes < rounds {
		t.Errorf("grants to the writer: got %d, want %d", writes, rounds)
	}
	c.wantLegal()
}

// read is one turn of a reader, which waits for the lock or asks once, by its number. A reader
// that asks once knows its validity, so it lets every other lock expire.
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
