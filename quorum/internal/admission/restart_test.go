package admission

import (
	"testing"
	"time"
)

func TestRestartedMastersWait(t *testing.T) {
	for what, lose := range map[string]func(s *story, i int){
		"restarted empty":            func(s *story, i int) { s.masters[i].flush(); s.restart(i) },
		"restarted with what it had": func(s *story, i int) { s.masters[i].run++ },
		"flushed":                    func(s *story, i int) { s.masters[i].flush() },
	} {
		t.Run(what, func(t *testing.T) {
			s := newStory(t, 5)
			p := s.begin()
			fence := s.mustLock(p, wLife, 0, 1, 2)
			lose(s, 0)
			lose(s, 1)
			if s.lock(p, time.Second, 0, 3, 4) {
				t.Error("granted by what lost its memory")
			}
			for i := range p.lanes {
				p.disconnect(i)
			}
			s.settle(2 * time.Second)
			s.want(p, "lost", "qqvvv")
			// A proxy that comes late counts from when it sees the mark.
			s.settle(5 * time.Second)
			late := s.begin()
			s.want(late, "lost, for another", "qqvvv")
			s.settle(wait - 9*time.Second)
			s.want(p, "before the wait is over", "qqvvv")
			s.settle(3 * time.Second)
			s.want(p, "after the wait", "vvvvv")
			s.want(late, "after the wait", "vvvvv")
			if next := s.mustLock(late, time.Second, 0, 1, 2); next <= fence {
				t.Errorf("fence %d after %d", next, fence)
			}
		})
	}
}

func TestAllMastersWiped(t *testing.T) {
	s := newStory(t, 3)
	p := s.begin()
	for _, m := range s.masters {
		m.flush()
	}
	s.settle(2 * time.Second)
	s.want(p, "flushed", "qqq")
	s.settle(wait)
	s.want(p, "after the wait", "vvv")
}

// A master with everything on disk votes at once; a configuration that says so only now is
// no proof.
func TestDurableMaster(t *testing.T) {
	s := newStory(t, 3)
	s.masters[0].durable, s.masters[1].durable = true, true
	p := s.begin()
	s.settle(3 * time.Second)
	s.masters[2].durable = true
	for i, m := range s.masters {
		p.disconnect(i)
		m.run++
		if i == 2 {
			delete(m.hash, "durable")
		}
	}
	s.settle(4 * time.Second)
	s.want(p, "restarted", "vvq")
	if len(p.says) < 2 {
		t.Errorf("says %q", p.says)
	}
	// Its mark is gone a second after the setting.
	s.masters[0].durable = false
	s.settle(3 * time.Second)
	p.disconnect(0)
	s.masters[0].run++
	s.settle(3 * time.Second)
	s.want(p, "no longer durable", "qvq")
}

// A durable master that restarts while most others are away votes when one of them is back.
func TestDurableMasterAlone(t *testing.T) {
	s := newStory(t, 3)
	for _, m := range s.masters {
		m.durable = true
	}
	p := s.begin()
	s.settle(3 * time.Second)
	for i, m := range s.masters {
		p.disconnect(i)
		m.run++
		m.down = i > 0
	}
	s.settle(5 * time.Second)
	s.want(p, "alone", "qdd")
	s.wantReason(p, 0, "waits for 1 more to confirm its admission: start m1, m2")
	s.masters[1].down = false
	s.settle(5 * time.Second)
	s.want(p, "one is back", "vvd")
}

// An older copy of the disk, of which this proxy knows that there was a later run.
func TestOldCopyOfDurableMaster(t *testing.T) {
	for _, switchedOff := range []bool{false, true} {
		s := newStory(t, 3)
		m := s.masters[0]
		m.durable = true
		p := s.begin()
		s.settle(3 * time.Second)
		old := m.disk()
		if switchedOff { // the file is not written any more
			m.durable = false
			s.settle(3 * time.Second)
			s.mustLock(p, time.Second, 0, 1)
		} else {
			p.disconnect(0)
			m.run++
			s.settle(4 * time.Second)
			s.want(p, "restarted", "vvv")
		}
		p.disconnect(0)
		old.run = 9
		s.masters[0] = old
		s.settle(3 * time.Second)
		s.want(p, "with an old copy", "qvv")
	}
}

// A clock that was set while the machine was off makes keys run out early, however durable.
func TestDurableClockSetMeanwhile(t *testing.T) {
	s := newStory(t, 3)
	s.masters[0].durable = true
	p := s.begin()
	s.settle(3 * time.Second)
	p.disconnect(0)
	s.masters[0].run++
	p.lanes[0].stepped = true
	s.settle(3 * time.Second)
	s.want(p, "restarted with another clock", "qvv")
}

func TestLostVotes(t *testing.T) {
	for cause, lose := range map[string]func(p *wProxy){
		"stepped its clock": func(p *wProxy) { p.lanes[0].stepped = true },
		"was a replica":     func(p *wProxy) { p.lanes[0].demoted = true },
		"evicted keys":      func(p *wProxy) { p.w.masters[0].evicted = 1 },
	} {
		s := newStory(t, 3)
		p := s.begin()
		field := s.masters[0].counters[0]
		lose(p)
		s.settle(2 * time.Second)
		s.want(p, cause, "qvv")
		s.wantReason(p, 0, cause)
		s.settle(wait)
		s.want(p, cause+", after the wait", "vvv")
		if got := s.masters[0].counters[0]; got != field {
			t.Errorf("%s: counter %d, was %d: nothing was counted meanwhile", cause, got, field)
		}
	}
}

func TestEvictingMasterIsRefused(t *testing.T) {
	s := newStory(t, 3)
	p := s.begin()
	s.masters[0].policy = "allkeys-lru"
	s.settle(2 * time.Second)
	s.want(p, "policy set", "rvv")
	s.wantReason(p, 0, "may evict locks (maxmemory-policy allkeys-lru, not noeviction)")
	allowed := s.begin(func(o *Options) { o.AllowEviction = true })
	s.want(allowed, "allowed", "vvv")
	s.masters[0].evicted = 1
	s.settle(2 * time.Second)
	s.want(allowed, "evicted", "qvv")
	s.masters[0].policy = "noeviction"
	s.settle(wait + 2*time.Second)
	s.want(p, "after the wait", "vvv")
}

// The record of a master keeps the number of keys that it had evicted at its admission.
func TestEvictionsWhileNobodyLooks(t *testing.T) {
	s := newStory(t, 3)
	s.masters[0].evicted = 3
	p := s.begin()
	s.want(p, "as admitted", "vvv")
	s.end(p)
	s.masters[0].evicted = 4
	p = s.begin()
	s.want(p, "evicted meanwhile", "qvv")
	s.settle(wait + 2*time.Second)
	s.want(p, "after the wait", "vvv")
	s.end(p)
	s.masters[0].evicted = 2 // CONFIG RESETSTAT, and two more
	p = s.begin()
	s.want(p, "evicted after a reset", "qvv")
}

// CONFIG RESETSTAT does not hide evictions.
func TestEvictionAfterResetStat(t *testing.T) {
	s := newStory(t, 3)
	s.masters[0].evicted = 10
	p := s.begin()
	s.masters[0].evicted = 0
	s.settle(2 * time.Second)
	s.want(p, "reset", "vvv")
	s.masters[0].evicted = 10
	s.settle(2 * time.Second)
	s.want(p, "evicted after the reset", "qvv")
}

// A master that refuses to have its record changed is asked once a second, not in a loop.
func TestChangeRefused(t *testing.T) {
	s := newStory(t, 3)
	p := s.begin()
	m := s.masters[0]
	p.disconnect(0)
	m.run++
	m.broken = true
	asked := m.asked
	s.settle(10 * time.Second)
	s.want(p, "refuses", "qvv")
	s.wantReason(p, 0, "OOM")
	if n := m.asked - asked; n < 5 || n > 25 {
		t.Errorf("asked %d times in 10s", n)
	}
	m.broken = false
	s.settle(wait + 3*time.Second)
	s.want(p, "after the wait", "vvv")
	// A durable mark that cannot be set keeps no master from voting.
	m.durable, m.broken = true, true
	s.settle(3 * time.Second)
	s.want(p, "a note refused", "vvv")
}

// A master that restarted and cannot be written holds up no other: the other is admitted when its
// wait ends, although the first can neither learn of it nor show the counters that it lost. The
// order in which the two restarted makes no difference.
func TestRestartBesideOneThatCannotBeWritten(t *testing.T) {
	for name, c := range map[string]struct {
		first   int
		durable bool // the full one has kept all on disk
	}{"the full one first": {0, false}, "the other first": {1, false}, "nothing lost": {0, true},
		"nothing lost there": {1, true}} {
		t.Run(name, func(t *testing.T) {
			s := newStory(t, 3)
			s.masters[0].durable = c.durable
			p, q := s.begin(), s.begin()
			s.settle(2 * time.Second)
			for _, i := range []int{c.first, 1 - c.first} {
				s.masters[i].run++
				s.masters[i].broken = i == 0
				for _, each := range []*wProxy{p, q} {
					each.disconnect(i)
				}
				s.settle(100 * time.Millisecond)
			}
			s.settle(wait - time.Second)
			s.want(p, "in the wait", "qqv")
			s.settle(startGrace + 3*time.Second)
			for _, each := range []*wProxy{p, q} {
				s.want(each, "after the wait", "qvv")
				s.wantReason(each, 0, "OOM")
			}
			s.masters[0].broken = false
			s.settle(wait + 3*time.Second)
			s.want(p, "written again", "vvv")
		})
	}
}
