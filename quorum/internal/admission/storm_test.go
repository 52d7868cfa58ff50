package admission

import (
	"slices"
	"testing"
	"time"
)

// storm is a history in which several masters are in trouble at once, each for long enough that
// quarantines begin and end meanwhile. They refuse writes, hang, restart with all data, without
// any or with an older disk, and are flushed. Addresses lead elsewhere. Connections are cut, or
// break at the next write.
//
// In half of them some addresses lead to two servers at a time, fewer than a majority. No other
// master loses its memory then: proxies on two sides could each find a majority lost that the
// other has. In the others addresses move for all at once.
type storm struct {
	*world
	dual    []int // addresses that lead to two servers
	lossy   []int // masters that may lose their memory
	focus   int   // the master that is in trouble more often
	swapped bool  // a database or an address was exchanged
	moved   bool  // all addresses lead to other servers for the first proxy
}

func runStorm(seed uint64, mutation string, terse bool) *world {
	return runStormOf(3+2*int(seed%4/3), seed, mutation, terse)
}

func runStormOf(masters int, seed uint64, mutation string, terse bool) *world {
	s := &storm{world: newWorld(seed, masters)}
	s.mutation, s.terse, s.gap, s.prompt = mutation, terse, true, s.IntN(3) > 0
	for _, m := range s.masters {
		m.durable = s.IntN(4) == 0
	}
	s.lossy = s.Perm(len(s.masters))[:1+s.IntN(len(s.masters))]
	if s.IntN(2) == 0 {
		s.dual = s.Perm(len(s.masters))[:1+s.IntN(len(s.masters)/2)]
		s.lossy = s.dual
	}
	s.unfenced = s.IntN(4) == 0
	s.start()
	s.start()
	s.calm(5 * time.Second)
	if len(s.dual) > 0 && s.IntN(3) == 0 {
		s.goStrict()
	}
	s.begin()
	for range 6 {
		for range s.IntN(3) {
			s.trouble()
		}
		s.phase([]time.Duration{500, 1500, 3000, 6000, 12000, 17000}[s.IntN(6)] * time.Millisecond)
	}
	if s.IntN(3) == 0 && s.mode != Strict {
		if len(s.dual) == 0 && s.IntN(2) == 0 { // one restarts and refuses writes, another restarts
			s.masters[s.focus].broken = true
			s.restart(s.focus)
			s.restart((s.focus + 1) % len(s.masters))
		}
		s.recovers()
	}
	return s.world
}

// goStrict makes the proxies strict. Then masters may lose their memory beside an address that
// leads to two servers; or all addresses lead to other servers for one proxy, which restarts
// meanwhile.
func (s *storm) goStrict() {
	s.mode, s.lossy = Strict, s.Perm(len(s.masters))
	for _, p := range s.proxies {
		p.g.o.Mode = Strict
	}
	if s.IntN(3) > 0 {
		s.dual = s.dual[:1]
		return
	}
	s.lossy, s.moved = s.dual, true
	for i := range s.masters {
		s.turnAway(s.proxies[0], i)
		s.phase(time.Duration(s.IntN(2000)) * time.Millisecond)
	}
	if s.IntN(2) == 0 {
		p := s.start()
		s.proxies = s.proxies[:len(s.proxies)-1]
		for i := range p.lanes {
			p.lanes[i].to = s.proxies[0].lanes[i].to
		}
		s.proxies[0] = p
	}
}

// begin starts the dangerous part. Addresses that lead to two servers lead the first
// proxy to the other ones, and the second proxy reaches only a majority. One that both reach is
// often in trouble then. Or a durable master restarts without its memory.
func (s *storm) begin() {
	s.focus = s.IntN(len(s.masters))
	switch {
	case s.IntN(4) == 0:
		return
	case len(s.dual) == 0:
		s.focus = s.lossy[0]
		s.masters[s.focus].durable = true
		s.phase(3 * time.Second)
		s.restartOlder(s.focus, true)
		s.phase(3 * time.Second)
		s.restartOlder(s.focus, s.IntN(2) == 0)
		return
	}
	var others []int
	for _, i := range s.Perm(len(s.masters)) {
		if !slices.Contains(s.dual, i) {
			others = append(others, i)
		}
	}
	s.focus = others[0]
	for _, i := range s.dual {
		if !s.moved {
			s.turnAway(s.proxies[0], i)
		}
	}
	for _, i := range others[s.proxies[1].g.majority()-len(s.dual):] {
		s.toggleCut(s.proxies[1], i)
	}
	if s.IntN(4) > 0 {
		s.flip()
	}
}

// flip ends the trouble that the first proxy has with the master in focus, or begins one.
func (s *storm) flip() {
	p, m := s.proxies[0], s.masters[s.focus]
	l := &p.lanes[s.focus]
	switch k := s.IntN(5); {
	case m.broken || l.flaky || m.hangs != nil:
		if m.broken {
			m.mended = s.now
		}
		m.broken, l.flaky, m.hangs = false, false, nil
	case l.cut || k == 0:
		s.toggleCut(p, s.focus)
		return
	case k == 1:
		m.hangs = p
	case k == 2:
		l.flaky = true
	default:
		m.broken = true
	}
	s.note("%s refuses writes: %v, to proxy %d: %v, hangs: %v", m.name, m.broken, p.n, l.flaky, m.hangs != nil)
}

// toggleCut cuts the link between a proxy and a master, or mends it.
func (s *storm) toggleCut(p *wProxy, i int) {
	l := &p.lanes[i]
	if l.cut = !l.cut; l.cut {
		p.disconnect(i)
	}
	s.note("proxy %d is cut from %d: %v", p.n, i, l.cut)
}

// trouble is one more of it, or the end of one.
func (s *storm) trouble() {
	p, any, lossy := s.proxies[s.IntN(len(s.proxies))], s.IntN(len(s.masters)), s.lossy[s.IntN(len(s.lossy))]
	if s.IntN(3) > 0 {
		any = s.focus
	}
	if len(s.dual) > 0 && s.IntN(3) > 0 {
		p = s.proxies[0]
	}
	switch k := s.IntN(6); {
	case len(s.dual) > 0 && k < 4:
		s.flip()
		return
	case k < 2:
		s.relief()
		return
	}
	m, l := s.masters[any], &p.lanes[any]
	switch k := s.IntN(18); k {
	case 16, 17:
		if len(s.dual) == 0 || s.mode == Strict {
			s.leave(any)
		}
	case 0, 1, 2:
		s.toggleCut(p, any)
	case 3, 4, 5:
		m.broken, m.mended = !m.broken, s.now
		s.note("%s refuses writes: %v", m.name, m.broken)
	case 6, 7:
		s.lead(p, lossy)
	case 8, 9, 10, 11:
		s.lose(lossy, k)
	case 12:
		m.durable = !m.durable
		s.note("%s is durable: %v", m.name, m.durable)
	case 13:
		if m.hangs = p; s.IntN(2) == 0 {
			m.hangs = nil
		}
		s.note("%s hangs for proxy %d: %v", m.name, p.n, m.hangs != nil)
	case 14:
		l.flaky = !l.flaky
		s.note("writing breaks the connection of proxy %d to %d: %v", p.n, any, l.flaky)
	default:
		if s.IntN(2) == 0 {
			s.pause()
		} else {
			s.kill()
		}
	}
}

// lead makes an address lead a proxy elsewhere, or swaps databases.
func (s *storm) lead(p *wProxy, lossy int) {
	if s.moved {
		return
	} else if len(s.dual) > 0 {
		s.turnAway(p, s.dual[s.IntN(len(s.dual))])
	} else {
		s.note("SWAPDB")
		s.swapped = true
		s.swapDB(lossy)
	}
}

// lose makes a master lose its memory, all of it or its last writes.
func (s *storm) lose(lossy, k int) {
	switch k {
	case 8:
		if len(s.dual) == 0 || s.IntN(2) == 0 {
			s.note("%s is flushed", s.masters[lossy].name)
			s.masters[lossy].flush()
		}
	case 9:
		s.restart(lossy)
	case 10:
		s.restartOlder(lossy, s.IntN(2) == 0)
	case 11:
		s.restartOlder(lossy, s.masters[lossy].durable)
	}
}

// relief ends a trouble, if a look finds one.
func (s *storm) relief() {
	for range 10 {
		p, i := s.proxies[s.IntN(len(s.proxies))], s.IntN(len(s.masters))
		m, l := s.masters[i], &p.lanes[i]
		switch {
		case m.broken:
			m.broken, m.mended = false, s.now
			s.note("%s can be written", m.name)
		case l.cut:
			s.toggleCut(p, i)
		case m.hangs != nil:
			m.hangs = nil
			s.note("%s does not hang", m.name)
		case p.paused:
			p.paused = false
			s.note("proxy %d goes on", p.n)
		case l.flaky:
			l.flaky = false
			s.note("proxy %d can write to %d", p.n, i)
		default:
			continue
		}
		return
	}
}

// lock is an attempt on all masters, or on a majority.
func (s *storm) lock(p *wProxy, ttl time.Duration) {
	var on []int
	for _, i := range s.Perm(len(p.lanes)) {
		if p.counts(i) {
			on = append(on, i)
		}
	}
	if s.IntN(2) == 0 && len(on) > p.g.majority() {
		on = on[:p.g.majority()]
	}
	p.acquireOn(ttl, on...)
}

// phase lets things be as they are for a while.
func (s *storm) phase(d time.Duration) {
	for end := s.now.Add(d); s.now.Before(end) && s.wrong == ""; {
		for _, p := range s.proxies {
			if p.paused {
				continue
			}
			if s.IntN(3) == 0 {
				s.lock(p, []time.Duration{time.Second, wLife / 2, wLife}[s.IntN(3)])
			}
			p.turn()
		}
		s.second()
		s.stops()
		if s.IntN(50) == 0 {
			s.release()
		}
		s.pass(time.Duration(100+s.IntN(400)) * time.Millisecond)
	}
}

// calm lets all proxies run undisturbed, at most so long: until all masters vote for all, except
// masters that refuse writes.
func (w *world) calm(d time.Duration) {
	for end := w.now.Add(d); w.now.Before(end); w.pass(250 * time.Millisecond) {
		for _, p := range w.proxies {
			p.turn()
		}
		if w.stuck() == nil {
			return
		}
	}
}

// stuck is a proxy for which a master that can be written does not vote.
func (w *world) stuck() *wProxy {
	for _, p := range w.proxies {
		for i, state := range p.states() {
			if state != 'v' && !w.masters[i].broken {
				return p
			}
		}
	}
	return nil
}

func TestStorm(t *testing.T) {
	from, n := seeds(1000)
	grants, quarantines := 0, 0
	for seed := from; seed < from+n; seed++ {
		w := runStorm(seed, "", true)
		grants, quarantines = grants+w.grants, quarantines+w.quarantines
		if w.wrong != "" {
			t.Fatalf("seed %d: %s\n%s", seed, w.wrong, runStorm(seed, "", false).text())
		}
	}
	t.Logf("%d grants, %d quarantines", grants, quarantines)
}
