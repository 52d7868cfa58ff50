package quorum

import "slices"

// Time and losses in the model of kinds.

// tick lets time pass. It is no step where nothing changes.
func (r *kRun) tick(s *kState) bool {
	before := *s
	for a := range r.roles {
		who := &s.attempts[a]
		if who.phase == kIdle || who.phase == kOver {
			continue
		}
		if who.asked != kNo {
			if who.askedAge++; who.askedAge >= kTTL {
				who.asked, who.askedAge = kNo, 0 // too late
			}
		}
		who.age = min(who.age+1, r.kept())
		switch {
		case who.age < kTTL, who.phase == kKeeping && who.asked != kNo:
		case who.phase == kClosed && who.age < r.kept():
		case who.phase <= kRaising:
			r.end(s, a, 0, kRelease)
		default:
			r.end(s, a, 0, kNo) // its validity is over
		}
	}
	for m := range r.n {
		at := &s.masters[m]
		if at.out > 1 {
			at.out--
		}
		for key := range at.keys {
			at.intent[key] -= min(at.intent[key], 1)
			at.keys[key].tick()
		}
	}
	return *s != before
}

func (k *kKey) tick() {
	if k.left == 0 {
		return
	}
	if k.left--; k.left == 0 {
		*k = kKey{}
		return
	}
	for i := range k.places {
		if p := &k.places[i]; p.left > 0 {
			if p.left--; p.left == 0 {
				*p = kPlace{}
			}
		}
	}
}

// faults are the loss of a master's memory and its way back.
func (r *kRun) faults(s kState, m int, f kStep) bool {
	next := s
	at := &next.masters[m]
	switch {
	case at.out == 0 && s.losses > 0:
		next.losses--
		*at = kMaster{out: 1 + kTTL, to: at.to}
		for a := range at.to {
			r.forget(&at.to[a])
		}
		return f(next, kEvent{"lose memory", 0, m})
	case at.out == 1 && !at.read:
		at.read = true
		for c := range at.copied {
			var others []uint8
			for i := range r.n {
				if s.masters[i].out == 0 {
					others = append(others, s.masters[i].counter[c])
				}
			}
			if len(others) < majority(r.n) {
				return true
			}
			slices.Sort(others)
			at.copied[c] = others[majority(r.n)-1]
		}
		return f(next, kEvent{"read counters", 0, m})
	case at.out == 1:
		if !r.forgets {
			at.counter = at.copied
		}
		at.out, at.read, at.copied = 0, false, [kKeys]uint8{}
		return f(next, kEvent{"rejoin", 0, m})
	}
	return true
}

// forget drops what was sent under the record that is lost: it votes. Releases do not.
func (r *kRun) forget(link *kLink) {
	for i := range link.lanes {
		var kept [kLane]kOp
		n := 0
		for _, op := range link.lanes[i] {
			if op == kRelease {
				kept[n] = op
				n++
			}
		}
		link.lanes[i] = kept
	}
}
