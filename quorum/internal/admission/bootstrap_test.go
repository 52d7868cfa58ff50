package admission

import (
	"slices"
	"testing"
	"time"
)

// newDeployment is one history of proxies in front of blank masters. With a disaster one master is
// emptied as soon as two vote, and proxies come and go.
func newDeployment(seed uint64, disaster bool, mutation string) *world {
	w := newWorld(seed, 3)
	w.mutation = mutation
	w.start()
	began, flushed := w.now, false
	slow, pace := 1+w.IntN(30), 1+w.IntN(20)
	for w.now.Sub(began) < 8*time.Second && w.wrong == "" {
		if len(w.proxies) < 3 && w.IntN(8) == 0 {
			w.start()
		}
		if disaster && w.IntN(40) == 0 {
			w.kill()
		}
		w.turns(pace)
		if disaster && !flushed && w.grants > 0 && w.IntN(slow) == 0 {
			flushed = true
			s := w.masters[w.IntN(3)]
			w.note("%s is flushed", s.name)
			s.flush()
		}
		w.pass(time.Duration(w.IntN(50)) * time.Millisecond)
	}
	if !disaster && w.quarantines > 0 {
		w.fail("%d quarantines", w.quarantines)
	}
	w.settle(2 * hold(wMaxTTL))
	for _, p := range w.proxies {
		if s := p.states(); s != "vvv" {
			w.fail("in the end masters are %s for proxy %d", s, p.n)
		}
	}
	return w
}

// turns gives proxies their turns. Some are slower than others.
func (w *world) turns(pace int) {
	for _, p := range w.proxies {
		if w.IntN(1+p.n%3*pace) == 0 {
			p.turn()
		}
		if w.IntN(3) == 0 {
			p.acquire(wLife)
		}
	}
}

// Proxies open a new deployment in any order in which they see blank masters. They never open a
// master that has granted and was emptied.
func TestNewDeploymentExplored(t *testing.T) {
	from, n := seeds(100)
	for seed := from; seed < from+n; seed++ {
		if w := newDeployment(seed, seed%4 != 0, ""); w.wrong != "" {
			t.Fatalf("seed %d: %s\n%s", seed, w.wrong, w.text())
		}
	}
}

func TestNewDeployment(t *testing.T) {
	s := newStory(t, 5)
	p := s.begin()
	s.want(p, "new", "vvvvv")
	if s.now.Sub(time.Unix(1.7e9, 0)) > time.Second || s.quarantines > 0 || len(p.says) == 0 {
		t.Errorf("%d quarantines, says %q", s.quarantines, p.says)
	}
	if fence, floor := s.mustLock(p, time.Second, 0, 1, 2, 3, 4), uint64(time.Unix(1.7e9,
		0).UnixMilli())<<floorShift; fence-floor > 1000<<floorShift {
		t.Errorf("fence %d, want about %d", fence, floor)
	}
	s.want(s.begin(), "for another", "vvvvv")
}

func TestNewDeploymentStrict(t *testing.T) {
	s := newStory(t, 3)
	p := s.begin(func(o *Options) { o.Mode = Strict })
	s.settle(3 * wait)
	s.want(p, "long after", "qqq")
	s.wantReason(p, 0, "no master has kept its memory: LOCKPROXY ADMIT m0")
	for i := range 3 {
		s.admit(p, i)
	}
	s.settle(2 * time.Second)
	s.want(p, "admitted by the operator", "vvv")
}

// A master that is late at the start is waited for, for a while.
func TestNewDeploymentLateMaster(t *testing.T) {
	s := newStory(t, 3)
	s.masters[2].down = true
	p := s.begin()
	s.want(p, "one away", "qqd")
	s.wantReason(p, 0, "is new and waits for the other masters")
	s.settle(2 * time.Second)
	s.masters[2].down = false
	s.settle(time.Second)
	s.want(p, "it came", "vvv")

	s = newStory(t, 3)
	s.masters[2].down = true
	p = s.begin()
	s.settle(startGrace)
	s.wantReason(p, 0, "is new or lost its memory")
	s.masters[2].down = false
	s.settle(2 * time.Second)
	s.want(p, "it came too late", "qqq")
	s.settle(wait + 2*time.Second)
	s.want(p, "after the wait", "vvv")

	s = newStory(t, 3)
	s.masters[2].down = true
	p = s.begin()
	s.settle(startGrace + wait + 2*time.Second)
	s.want(p, "it never came", "vvd")

	// They may be put in quarantine one after the other.
	s = newStory(t, 3)
	s.masters[2].down, s.masters[1].down = true, true
	p = s.begin()
	s.settle(startGrace)
	s.masters[1].down = false
	s.settle(startGrace)
	s.want(p, "one after the other", "qqd")
	s.settle(wait)
	s.want(p, "two came, one after the other", "vvd")
}

// Masters that come up long after the proxy, one after another, are a new deployment all the same.
func TestNewDeploymentAfterProxy(t *testing.T) {
	s := newStory(t, 3)
	for _, m := range s.masters {
		m.down = true
	}
	p := s.begin()
	s.settle(20 * time.Second)
	s.masters[0].down = false
	s.settle(2 * time.Second)
	s.wantReason(p, 0, "is new and waits for the other masters")
	s.masters[1].down, s.masters[2].down = false, false
	s.settle(time.Second)
	s.want(p, "all came", "vvv")
}

// TestNewDeploymentUnwritableMaster: a master that answers but refuses writes does not hold up the
// others.
func TestNewDeploymentUnwritableMaster(t *testing.T) {
	s := newStory(t, 3)
	s.masters[2].broken = true
	p := s.begin()
	s.want(p, "one cannot be written", "qqq")
	s.wantReason(p, 2, "OOM")
	s.settle(startGrace + wait + 2*time.Second)
	s.want(p, "after the wait", "vvq")
	s.mustLock(p, time.Second, 0, 1)
	s.masters[2].broken = false
	s.settle(wait + 3*time.Second)
	s.want(p, "mended", "vvv")
}

// TestNewDeploymentSeenTooLate: a proxy has seen two masters marked as new. That the third is
// marked now does not say that the first two still are.
func TestNewDeploymentSeenTooLate(t *testing.T) {
	s := newStory(t, 3)
	g, now := New(s.start().g.o), s.now
	see := func(i int) (probed, changed []int) {
		now = now.Add(time.Millisecond)
		m := s.masters[i]
		g.Observe(i, Observation{Conn: uint64(i + 1), Sent: now, At: now, ServerInfo: m.facts(), ProbeReply: m.probe(now)})
		actions, _ := g.Evaluate(now)
		for _, a := range actions {
			switch a.Kind {
			case ActProbe:
				probed = append(probed, a.Master)
			case ActChange:
				changed = append(changed, a.Master)
			}
		}
		return probed, changed
	}
	for i, m := range s.masters {
		m.hash["record"] = "N " + m.runID() + " 0123456789abcdef"
		if probed, changed := see(i); changed != nil || i == 2 && !slices.Contains(probed, 0) {
			t.Errorf("master %d is marked: probes %v, changes %v", i, probed, changed)
		}
	}
	see(0)
	if probed, changed := see(1); probed != nil || len(changed) != 3 {
		t.Errorf("all were marked at one time: probes %v, changes %v", probed, changed)
	}
}

// A master joins the vote only after the master that its knowledge contradicts has left it.
func TestExcludesFirst(t *testing.T) {
	s := newStory(t, 3)
	p := s.begin()
	s.move(0, true)
	s.settle(wait + 5*time.Second)
	s.want(p, "moved", "vvv")
	s.move(0, true)
	g, now := New(p.g.o), s.now
	see := func(i int) (kinds []ActionKind) {
		g.Observe(i, Observation{Conn: uint64(i + 1), Sent: now, At: now, ServerInfo: s.masters[i].facts(),
			ProbeReply: s.masters[i].probe(now)})
		actions, _ := g.Evaluate(now)
		for _, a := range actions {
			kinds = append(kinds, a.Kind)
		}
		return kinds
	}
	if got := see(0); !slices.Equal(got, []ActionKind{ActVote}) {
		t.Errorf("an older state, alone: %v", got)
	}
	if got := see(2); !slices.Equal(got, []ActionKind{ActExclude, ActChange, ActExclude}) {
		t.Errorf("with another that knows better: %v", got)
	}
}
