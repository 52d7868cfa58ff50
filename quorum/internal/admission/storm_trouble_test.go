package admission

import (
	"fmt"
	"maps"
)

// turnAway makes an address lead elsewhere for one proxy, or where it does for all.
func (w *world) turnAway(p *wProxy, i int) {
	l := &p.lanes[i]
	if w.away[i] == nil {
		w.away[i] = newServer(fmt.Sprint("away", i))
	}
	if l.to = w.away[i]; l.server == l.to {
		l.to = nil
	}
	w.note("for proxy %d address %d leads elsewhere: %v", p.n, i, l.to != nil)
	p.disconnect(i)
}

// restartOlder is a restart with the disk of some time ago.
func (w *world) restartOlder(i int) {
	s := w.masters[i]
	if s.before.hash == nil || s.durable {
		s.before.hash, s.before.counters = maps.Clone(s.hash), maps.Clone(s.counters)
		return
	}
	hash, counters := s.before.hash, s.before.counters
	s.before.hash = nil
	w.restart(i)
	s.token, s.hash, s.counters, s.lies = 0, hash, counters, hash["record"]
	w.note("%s has an older disk", s.name)
}

// restartWithout is a restart of a durable master with an old file in the place of the one that
// was written: the setting was forgotten.
func (w *world) restartWithout(i int) {
	if s := w.masters[i]; s.durable {
		w.restart(i)
		s.token, s.durable, s.lies = 0, false, s.hash["record"]
		s.broken = s.broken || w.IntN(2) == 0
		w.note("%s has not read what it kept; it refuses writes: %v", s.name, s.broken)
	}
}

// switchOn makes a master durable. If it still says that it was so when it lost its memory, then
// only after every proxy has found it without.
func (w *world) switchOn(i int) {
	s := w.masters[i]
	for _, p := range w.proxies {
		if s.lying() && !p.saw[s.runID()] {
			return
		}
	}
	s.durable = true
	w.note("%s is durable from now on", s.name)
}

func (s *wServer) lying() bool { return s.lies != "" && s.lies == s.hash["record"] }

// fooled reports whether a proxy that started now would be.
func (w *world) fooled() bool {
	for _, s := range w.servers() {
		if s.lying() && s.durable {
			return true
		}
	}
	return false
}
