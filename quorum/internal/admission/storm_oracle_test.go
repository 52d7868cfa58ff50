package admission

import (
	"strings"
	"time"
)

// second fails if a second lock could be granted while the first is held.
func (w *world) second() {
	if !w.now.Before(w.holder.until) {
		return
	}
	for _, p := range w.proxies {
		n := 0
		for i := range p.lanes {
			if l := &p.lanes[i]; p.counts(i) && !(l.server.token != 0 && w.now.Before(l.server.until)) {
				n++
			}
		}
		if !p.paused && n >= p.g.majority() {
			w.fail("proxy %d can lock while %d is held for another %v", p.n, w.holder.token, w.holder.until.Sub(w.now))
		}
	}
}

// working is the state of a master when it voted.
type working struct {
	conn    uint64
	server  *wServer
	run     int
	flushes int
}

// healthy reports whether a master that voted has had no fault since.
func (p *wProxy) healthy(i int, was working) bool {
	l := &p.lanes[i]
	s := l.server
	return l.up && !l.cut && !l.flaky && !l.stepped && was == working{l.conn, s, s.run, s.flushes} && !s.broken &&
		s.hangs == nil && !s.down
}

// stops fails if a majority that voted together, and has had no fault since, no longer votes:
// locks go on without the others. Addresses that lead to two servers are left out, because the
// other proxy's masters are disturbed there.
func (s *storm) stops() {
	if len(s.dual) > 0 || s.swapped || !s.prompt {
		return
	}
	for _, p := range s.proxies {
		if p.paused {
			clear(p.worked)
			continue
		}
		votes := p.forgetBroken()
		if len(p.worked) >= p.g.majority() && votes < p.g.majority() {
			s.fail("proxy %d: a majority that worked stops working: masters are %s: %v", p.n, p.states(), p.reasons())
			return
		}
		if strings.Count(p.states(), "v") < p.g.majority() {
			continue
		}
		for i := range p.lanes {
			if l := &p.lanes[i]; p.counts(i) {
				p.worked[i] = working{l.conn, l.server, l.server.run, l.server.flushes}
			}
		}
	}
}

// forgetBroken forgets the lanes that no longer work, and returns how many of the others vote.
func (p *wProxy) forgetBroken() (votes int) {
	for i, was := range p.worked {
		if !p.healthy(i, was) {
			delete(p.worked, i)
		} else if p.lanes[i].votes {
			votes++
		}
	}
	return votes
}

// counts reports whether the vote of a master can be asked for, and counted.
func (p *wProxy) counts(i int) bool {
	l := &p.lanes[i]
	return l.up && l.votes && !l.cut && !l.server.broken && l.server.hangs != p && !p.w.blind(l.server) &&
		!p.w.now.After(l.until) && l.server.hash["record"] == l.record
}

// admitted notes which servers cannot have learned of an admission, because they refuse writes.
// When they take writes again, a proxy with an older state of that master can lock on both, until
// it sees that they have learned of it. No rule can prevent that. So the world lets them grant no
// lock until then. Locks on them between the last refused write and the admission do not count.
func (w *world) admitted(p *wProxy, i int, a admission) {
	if !w.gap || len(p.g.masters[i].mark.learners) >= min(p.g.majority(), len(p.lanes)-1) {
		return
	}
	for j := range p.lanes {
		s := p.lanes[j].server
		if j == i || s == nil || !s.broken && w.now.Sub(s.mended) > MaxAge+500*time.Millisecond {
			continue
		}
		if s.unaware = append(s.unaware, &unaware{i, a, time.Time{}}); s.token == w.holder.token {
			w.holder.until, w.fence = w.now, 0
		}
	}
}

// unaware is an admission that a server has not heard of.
type unaware struct {
	master int
	admission
	told time.Time
}

// blind reports whether a server has not heard of an admission, or others may not know that it
// has.
func (w *world) blind(s *wServer) bool {
	for _, u := range s.unaware {
		k := w.proxies[0].g.parseKnown(s.hash["known"])[u.master].admission
		if k != u.admission && w.waited(k).number <= u.number {
			u.told = time.Time{}
			return true
		}
		if u.told.IsZero() {
			u.told = w.now
		}
		if w.now.Sub(u.told) <= MaxAge {
			return true
		}
	}
	return false
}

// waited is the admission with a wait that one without follows.
func (w *world) waited(a admission) admission {
	for from, ok := w.survived[a]; ok; from, ok = w.survived[a] {
		a = from
	}
	return a
}

// recovers: when all is well again every master votes for every proxy, after few quarantines.
// Until masters that refuse writes can be written they hold up no others, unless they are back in
// an older state.
func (w *world) recovers() {
	if w.wrong != "" {
		return
	}
	w.heal()
	w.calm(3 * time.Second)
	full, older := 0, false
	for i, s := range w.masters {
		if s.broken {
			full++
			older = older || w.isOlder(i)
		}
	}
	if full <= (len(w.masters)-1)/2 && !older {
		w.calm(3*hold(wMaxTTL) + 20*time.Second)
		if p := w.stuck(); p != nil {
			w.fail("beside masters that refuse writes masters are %s for proxy %d: %v", p.states(), p.n, p.reasons())
		}
	}
	for _, s := range w.servers() {
		s.broken = false
	}
	n := w.quarantines
	w.calm(4*hold(wMaxTTL) + 20*time.Second)
	if p := w.stuck(); p != nil {
		w.fail("in the end masters are %s for proxy %d: %v", p.states(), p.n, p.reasons())
	}
	if w.quarantines-n > 2*len(w.masters) {
		w.fail("%d quarantines after all is well", w.quarantines-n)
	}
}

// isOlder reports whether a proxy finds an older state on a master.
func (w *world) isOlder(i int) bool {
	for _, p := range w.proxies {
		if p.g.view(w.now).older[i] {
			return true
		}
	}
	return false
}

// servers are all that there are.
func (w *world) servers() []*wServer {
	all := append([]*wServer{w.other}, w.masters...)
	for _, s := range w.away {
		all = append(all, s)
	}
	return all
}
