package admission

import "time"

// second fails if a second lock could be granted while the first stands.
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

// counts reports whether the vote of a master can be asked for, and counted.
func (p *wProxy) counts(i int) bool {
	l := &p.lanes[i]
	return l.up && l.votes && !l.cut && !l.server.broken && l.server.hangs != p && !p.w.blind(l.server) &&
		p.w.now.Sub(l.observed) <= MaxAge && l.server.hash["record"] == l.record
}

// admitted notes which servers cannot have heard of an admission, as they refuse writes. When they
// can be written again, a proxy on an older state of that master can lock on both, until it has
// seen that they are told. That cannot be helped. So they grant nothing until then. What was
// locked on them between the last write that was refused and the admission does not count.
func (w *world) admitted(p *wProxy, i int, a admission) {
	if !w.gap || len(p.g.masters[i].mark.told) >= min(p.g.majority(), len(p.lanes)-1) {
		return
	}
	for j := range p.lanes {
		s := p.lanes[j].server
		if j == i || s == nil || !s.broken && w.now.Sub(s.mended) > 1500*time.Millisecond {
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
		k := w.proxies[0].g.parseKnown(s.hash["known"])[u.master]
		if k != u.admission && k.number <= u.number {
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

// recovers: when all is well again every master votes for every proxy, after few quarantines.
// Until masters that refuse writes can be written they hold up no others, unless they are back in an
// older state.
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
		if e := (&evaluation{g: p.g, now: w.now}); e.older(i) {
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
