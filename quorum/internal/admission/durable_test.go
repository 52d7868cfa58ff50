package admission

import (
	"testing"
	"time"
)

// TestDurableMasterRewrites: what a master is after its restart does not matter to the proof that
// it lost nothing. It is not thrown out as soon as it was admitted.
func TestDurableMasterRewrites(t *testing.T) {
	s := newStory(t, 3)
	for _, m := range s.masters {
		m.durable = true
	}
	p := s.begin()
	s.settle(3 * time.Second)
	s.mustLock(p, time.Second, 0, 1, 2)
	s.settle(3 * time.Second)
	for i, m := range s.masters {
		p.disconnect(i)
		m.run++
		m.rewrites = true
	}
	s.settle(4 * time.Second)
	s.want(p, "restarted with all", "vvv")
}

// TestWritesOfAnotherServer: a connection ends before the first observation on it. The packets that
// it counted, of replayed releases, are those of another server.
func TestWritesOfAnotherServer(t *testing.T) {
	s := newStory(t, 3)
	s.masters[0].durable = true
	p := s.begin()
	s.settle(3 * time.Second)
	p.disconnect(0)
	p.connect(0)
	p.lanes[0].queue = nil
	p.lanes[0].writes = 1 << 45
	p.disconnect(0)
	s.settle(3 * time.Second)
	p.disconnect(0)
	s.masters[0].run++
	s.settle(3 * time.Second)
	s.want(p, "restarted with all", "vvv")
}

// TestDurableCopy: a copy of a durable master's disk runs beside it, on the other side of a
// partition. It must not vote while the first may.
func TestDurableCopy(t *testing.T) {
	s := newStory(t, 3)
	for _, m := range s.masters {
		m.durable = true
	}
	p, q := s.begin(), s.begin()
	s.settle(3 * time.Second)
	q.lanes[0].to = s.masters[0]
	s.masters[0] = s.masters[0].disk()
	s.masters[0].name = "copy"
	p.disconnect(0)
	p.lanes[2].cut = true
	p.disconnect(2)
	q.lanes[1].cut = true
	q.disconnect(1)
	s.settle(3 * time.Second)
	s.lock(q, 8*time.Second, 0, 2)
	if s.lock(p, 8*time.Second, 0, 1); s.wrong != "" {
		t.Error(s.wrong)
	}
}
