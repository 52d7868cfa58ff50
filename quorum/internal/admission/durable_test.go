package admission

import (
	"testing"
	"time"
)

// A rewrite of the append-only file after a restart does not weaken the proof that the master kept
// all writes. The master is not thrown out as soon as it was admitted.
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

// TestWritesOfAnotherServer: a connection ends before the first observation on it. The packets
// that it counted, of replayed releases, are those of another server.
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
