package model

import "slices"

// Time, and loss of memory. A master's record says whether it votes. A master without a record
// gets a mark; after a wait a proxy admits it.

type record uint8

const (
	votes record = iota
	marked
	lost
)

// sight is a proxy's last look at a master's record.
type sight struct {
	record record
	stale  bool  // the record has changed since
	age    uint8 // time since it saw the mark
}

// tick lets time pass.
func (r *run) tick(s *state) {
	for a := range r.roles {
		who := &s.attempts[a]
		if who.phase == idle || who.phase == over {
			continue
		}
		if who.asked != none {
			if who.askedAge++; who.askedAge >= ttl {
				who.asked, who.askedAge = none, 0 // timed out
			}
		}
		who.age = min(who.age+1, r.kept())
		switch {
		case who.age < ttl, who.phase == keeping && who.asked != none:
		case who.phase == closed && who.age < r.kept():
		case who.phase <= raising:
			r.end(s, a, 0, release)
		case (who.phase == holding || who.phase == expired) && (who.asked != none || r.mayAsk(s, a)):
			who.phase = expired
		default:
			r.end(s, a, 0, none) // its validity has ended
		}
	}
	r.tickMasters(s)
}

// mayAsk reports whether a may send another EXTEND.
func (r *run) mayAsk(s *state, a int) bool { return r.roles[a].may&mayExtend != 0 && s.extends > 0 }

// tickMasters is tick for keys, intents and the knowledge about masters.
func (r *run) tickMasters(s *state) {
	for m := range r.n {
		at := &s.masters[m]
		for a := range r.roles {
			r.tickMessages(&at.to[a])
		}
		for key := range at.keys {
			at.intent[key] -= min(at.intent[key], 1)
			at.keys[key].tick()
		}
		for p := range at.seen {
			if seen := &at.seen[p]; seen.record == marked && (!seen.stale || r.countsOn) {
				seen.age = min(seen.age+1, r.wait())
			}
		}
	}
}

// tickMessages is tick for messages that set keys. A master would refuse those that were sent a
// ttl ago.
func (r *run) tickMessages(l *link) {
	for lane := range l.lanes {
		q := &l.lanes[lane]
		for i, o := range q {
			if o.sets() {
				q[i] = r.aged(o, 1)
			}
		}
		_ = slices.DeleteFunc(q[:], func(o op) bool { return o/older >= ttl })
	}
}

// aged returns an operation that sets keys when so much time has passed.
func (r *run) aged(o op, by uint8) op {
	if fills := o.kind() == fill; fills && r.fillsLate || !fills && r.grantsLate {
		return o
	}
	return o + op(by)*older
}

func (k *key) tick() {
	if k.left == 0 {
		return
	}
	if k.left--; k.left == 0 {
		*k = key{}
		return
	}
	for i := range k.places {
		if p := &k.places[i]; p.left > 0 {
			if p.left--; p.left == 0 {
				*p = place{}
			}
		}
	}
}

// faults visits losses of memory and the proxies' reactions.
func (x *successors) faults(m int) {
	if x.s.losses > 0 {
		x.may("lose memory", 0, m, func(next *state) {
			next.losses--
			x.lose(&next.masters[m])
		})
	}
	at := &x.s.masters[m]
	for p, seen := range at.seen[:x.proxies] {
		if seen.stale {
			x.may("look", p, m, func(next *state) { x.look(&next.masters[m], p) })
		}
		waited := at.record == marked && seen == sight{record: marked, age: x.wait()}
		if at.record == marked && (waited || x.early) && !at.read && !x.unfenced {
			x.may("read counters", p, m, func(next *state) { x.copy(next, m) })
		}
		if waited && (at.read || x.unfenced) {
			x.may("admit", p, m, func(next *state) { x.admit(&next.masters[m], p) })
		}
	}
}

// lose clears a master. It will refuse messages sent under the old record, so they vanish.
func (r *run) lose(at *master) {
	*at = master{record: lost, seen: at.seen, to: at.to}
	r.write(at, lost)
	if r.uncompared {
		return
	}
	for a := range at.to {
		for lane := range at.to[a].lanes {
			_ = slices.DeleteFunc(at.to[a].lanes[lane][:], func(o op) bool { return o != release })
		}
	}
}

// write changes the record. All earlier looks are stale.
func (r *run) write(at *master, to record) {
	at.record = to
	for p := range at.seen {
		seen := &at.seen[p]
		if seen.stale = true; r.countsOn {
			continue
		}
		if seen.age = 0; !r.uncompared {
			seen.record = votes // no longer matters
		}
	}
}

// look reads the record for proxy p, and writes one if the master has none.
func (r *run) look(at *master, p int) {
	switch {
	case at.record != lost:
	case r.unmarked:
		r.write(at, votes)
	default:
		r.write(at, marked)
	}
	at.seen[p].record, at.seen[p].stale = at.record, false
}

// copy reads counters for the admission of m: the largest on a majority of voters, the lowest
// ones.
func (r *run) copy(s *state, m int) {
	at := &s.masters[m]
	for c := range at.copied {
		var others []uint8
		for i := range r.n {
			if s.masters[i].record == votes {
				others = append(others, s.masters[i].counter[c])
			}
		}
		if len(others) < r.majority() {
			return
		}
		slices.Sort(others)
		at.copied[c] = others[r.majority()-1]
	}
	at.read = true
}

// admit lets a master vote again.
func (r *run) admit(at *master, p int) {
	for c := range at.counter {
		if !r.forgets {
			at.counter[c] = max(at.counter[c], at.copied[c])
		}
	}
	at.read, at.copied = false, [maxKeys]uint8{}
	r.write(at, votes)
	at.seen[p] = sight{}
}
