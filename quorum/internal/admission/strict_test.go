package admission

import (
	"testing"
	"time"
)

// TestStrictNamesWhoIsAway: the third may have kept its memory. To start it is safer than ADMIT.
func TestStrictNamesWhoIsAway(t *testing.T) {
	s := newStory(t, 3)
	p := s.begin()
	s.settle(2 * time.Second)
	p.g.o.Mode = Strict
	s.masters[2].down = true
	s.masters[0].flush()
	s.masters[1].flush()
	s.settle(wait + 5*time.Second)
	s.wantReason(p, 0, "start m2")
	s.masters[2].down = false
	s.settle(wait + 10*time.Second)
	s.want(p, "the third is back", "vvv")
}

// TestStrictUnwritable: an address leads to two servers, and a master that both proxies reach
// refuses writes for a while. With strict the new server does not vote meanwhile.
func TestStrictUnwritable(t *testing.T) {
	s := newStory(t, 3)
	p, q := s.begin(), s.begin()
	s.settle(2 * time.Second)
	p.g.o.Mode, q.g.o.Mode = Strict, Strict
	q.lanes[0].to = s.masters[0]
	s.masters[0] = s.other
	p.disconnect(0)
	q.lanes[2].cut = true
	q.disconnect(2)
	s.masters[1].broken = true
	s.settle(wait + 10*time.Second)
	s.masters[1].broken = false
	s.lock(p, 8*time.Second, 0, 2)
	if s.lock(q, 8*time.Second, 0, 1); s.wrong != "" {
		t.Error(s.wrong)
	}
}
