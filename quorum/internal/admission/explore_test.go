package admission

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// walk is one history. A disaster happens to one address at a time: it leads to another server and
// back, its database is swapped, its server is flushed, restarts, comes back with an older disk.
// Connections break, proxies are stopped, cut off and killed at any time.
func walk(seed uint64, mutation string) *world {
	w := newWorld(seed, 3+2*int(seed%4/3))
	w.mutation = mutation
	w.masters[0].durable = w.IntN(4) == 0
	w.start()
	w.start()
	w.settle(5 * time.Second)
	for range 4 {
		if w.wrong != "" {
			return w
		}
		w.epoch()
	}
	return w
}

// epoch is a while of disasters of one address, after which all is well again. Each has its own
// kinds of them, and its own pace.
func (w *world) epoch() {
	i := w.IntN(len(w.masters))
	var kinds []func()
	add := func(n int, f func()) {
		for range n * w.IntN(3) {
			kinds = append(kinds, f)
		}
	}
	add(2, func() { w.move(i, false) })
	add(1, func() { w.move(i, true) })
	add(1, func() { w.note("%s is flushed", w.masters[i].name); w.masters[i].flush() })
	add(1, func() { w.restart(i) })
	add(1, func() { w.cut(true) })
	add(2, func() { w.cut(false) })
	add(2, w.pause)
	add(1, func() { w.proxies[w.IntN(len(w.proxies))].disconnect(w.IntN(len(w.masters))) })
	add(1, w.kill)
	pace, quiet := 1+w.IntN(60), w.IntN(len(w.proxies)+1)
	for end := w.now.Add(time.Duration(20+w.IntN(80)) * time.Second); w.now.Before(end) && w.wrong == ""; {
		if len(kinds) > 0 && w.IntN(pace) == 0 {
			kinds[w.IntN(len(kinds))]()
		}
		w.acquireAndTurn(quiet)
		if w.IntN(100) == 0 {
			w.release()
		}
		w.pass(time.Duration(w.IntN(500)) * time.Millisecond)
	}
	w.heal()
	w.settle(4*hold(wMaxTTL) + 20*time.Second)
	for _, p := range w.proxies {
		if s := p.states(); strings.Trim(s, "v") != "" {
			w.fail("in the end masters are %s for proxy %d", s, p.n)
		}
	}
}

// acquireAndTurn lets some proxies acquire, the quiet one seldom, and gives each its turn.
func (w *world) acquireAndTurn(quiet int) {
	for _, p := range w.proxies {
		if !p.paused && w.IntN(6) == 0 && (p.n != quiet || w.IntN(10) == 0) {
			p.acquire(time.Duration(1+w.IntN(int(wLife/time.Millisecond))) * time.Millisecond)
		}
	}
	for _, p := range w.proxies {
		if !p.paused {
			p.turn()
		}
	}
}

// move makes the address of a master lead to the other server. With all, the connections follow,
// as with SWAPDB; otherwise they stay until they break.
func (w *world) move(i int, all bool) {
	w.masters[i], w.other = w.other, w.masters[i]
	w.note("address %d leads to %s, for all %v", i, w.masters[i].name, all)
	for _, p := range w.proxies {
		if all {
			p.disconnect(i)
		}
	}
}

func (w *world) restart(i int) {
	s := w.masters[i]
	keep := s.durable || w.IntN(2) == 0
	w.note("%s restarts, keeps %v", s.name, keep)
	for _, p := range w.proxies {
		for k := range p.lanes {
			if p.lanes[k].server == s {
				p.disconnect(k)
			}
		}
	}
	s.restart(keep)
	if !s.durable { // and the setting was noticed
		s.token = 0
		delete(s.hash, "durable")
	}
}

func (w *world) cut(cut bool) {
	p, i := w.proxies[w.IntN(len(w.proxies))], w.IntN(len(w.masters))
	w.note("proxy %d is cut from %d: %v", p.n, i, cut)
	p.lanes[i].cut = cut
	if cut && w.IntN(2) == 0 {
		p.disconnect(i)
	}
}

func (w *world) pause() {
	p := w.proxies[w.IntN(len(w.proxies))]
	p.paused = !p.paused
	w.note("proxy %d is stopped: %v", p.n, p.paused)
}

// kill ends a proxy and starts another.
func (w *world) kill() {
	k := w.IntN(len(w.proxies))
	p := w.proxies[k]
	w.note("proxy %d is killed", p.n)
	for i := range p.lanes {
		for _, m := range p.lanes[i].queue {
			if m.run != nil && w.IntN(2) == 0 {
				m.run(p.lanes[i].server)
			}
		}
	}
	fresh := w.start()
	fresh.n = p.n + 10
	w.proxies = w.proxies[:len(w.proxies)-1]
	w.proxies[k] = fresh
}

func seeds(otherwise int) (from, n uint64) {
	number := func(name string, otherwise int) uint64 {
		if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
			return uint64(n)
		}
		return uint64(otherwise)
	}
	return number("ADMISSION_FROM", 1), number("ADMISSION_SEEDS", otherwise)
}

func TestRandomDisastersOfOneAddress(t *testing.T) {
	from, n := seeds(30)
	grants, quarantines := 0, 0
	for seed := from; seed < from+n; seed++ {
		w := walk(seed, "")
		grants, quarantines = grants+w.grants, quarantines+w.quarantines
		if w.wrong != "" {
			t.Fatalf("seed %d: %s\n%s", seed, w.wrong, w.text())
		}
	}
	t.Logf("%d grants, %d quarantines", grants, quarantines)
}

func TestRandomDisastersFindMutations(t *testing.T) {
	for _, mutation := range []string{"the old record believed", "nobody is told"} {
		found := uint64(0)
		for seed := uint64(1); seed < 400 && found == 0; seed++ {
			if w := walk(seed, mutation); w.wrong != "" {
				found = seed
				t.Logf("%s: seed %d: %s", mutation, seed, w.wrong)
			}
		}
		if found == 0 {
			t.Errorf("%s: not found", mutation)
		}
	}
}
