package admission

import (
	"fmt"
	"maps"
	"strconv"
	"strings"
)

// turnAway makes an address lead elsewhere for one proxy, or to the server of all.
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

// restartOlder is a restart with the disk of some time ago: as it is, cut short, or an RDB beside
// an append-only file that is switched on later. A durable master that lost writes counts only if
// enough others know of them: that is what its vote rests on.
func (w *world) restartOlder(i int, durable bool) {
	s := w.masters[i]
	if s.before.hash == nil {
		s.before.hash, s.before.counters = maps.Clone(s.hash), maps.Clone(s.counters)
		s.before.token, s.before.until = s.token, s.until
		return
	}
	hash, counters := s.before.hash, s.before.counters
	if s.durable && !w.witnessed(i) {
		return
	}
	s.before.hash = nil
	w.restart(i)
	s.token, s.until, s.hash, s.counters, s.durable = s.before.token, s.before.until, hash, counters, durable
	w.note("%s has an older disk; durable: %v", s.name, durable)
}

// witnessed reports whether enough others know of writes that the disk of some time ago lacks, or
// that it lacks none.
func (w *world) witnessed(i int) bool {
	s := w.masters[i]
	old, _ := strconv.ParseUint(s.before.hash["writes"], 10, 64)
	if s.before.hash["record"] != s.hash["record"] || s.before.hash["durable"] == "" {
		return true // an older admission, or no proof
	}
	n := 0
	for j, o := range w.masters {
		if k := w.proxies[0].g.parseKnown(o.hash["known"])[i]; j != i &&
			parseNonce(strings.Fields(s.hash["record"])[3]).admission == k.admission && k.writes > old {
			n++
		}
	}
	return old == s.writes() || n >= len(w.masters)-w.proxies[0].g.majority()+1
}

// leave lets a master go, or come back with the disk that it had then. Meanwhile others may have
// been admitted again without it.
func (w *world) leave(i int) {
	s := w.masters[i]
	if s.down = !s.down; s.down {
		w.note("%s leaves", s.name)
		w.restartOlder(i, s.durable) // takes a copy if there is none
		return
	}
	w.note("%s comes back", s.name)
	if w.restart(i); s.before.hash != nil && !s.durable {
		s.hash, s.counters, s.before.hash = s.before.hash, s.before.counters, nil
	}
}
