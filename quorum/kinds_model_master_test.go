package quorum

// What a master does with the messages of the model of kinds.

// arrive carries out the first message of a lane, and returns what it was.
func (r *kRun) arrive(s *kState, a, m, lane int) kOp {
	at := &s.masters[m]
	q := &at.to[a].lanes[lane]
	op := q[0]
	copy(q[:], q[1:])
	q[kLane-1] = kNo
	if at.out > 0 && op != kRelease {
		return op // answered with an error, as if it were late for ever
	}
	done := false
	switch op {
	case kAcquire, kAcquireSecond:
		keys := r.roles[a].keys
		if r.keyByKey && keys == 3 {
			keys = 1
			if r.roles[a].back != (op == kAcquireSecond) {
				keys = 2
			}
		}
		r.acquire(s, a, m, keys)
	case kRaise:
		r.raise(s, a, m)
	case kExtend:
		done = r.extend(at, a)
	case kFill:
		r.fill(s, a, m)
	case kShare:
		done = r.share(at, a, s.attempts[a].fence)
	case kKeep:
		done = r.keep(at, a)
	case kRelease:
		r.release(at, a)
	}
	if who := s.attempts[a]; op == who.asked && done {
		// The release of another slot may not be there yet.
		at.to[a].done = at.keys[0].places[a].slot == who.slot || r.foundAnySlot
	}
	return op
}

// free reports whether a may have a place at key, and which slot.
func (r *kRun) free(at *kMaster, a, key int) (slot uint8, ok bool) {
	role, k := r.roles[a], &at.keys[key]
	switch role.mode {
	case kShared:
		return 0, at.intent[key] == 0 && (k.left == 0 || k.mode == kShared)
	case kLimited:
		if k.left != 0 && k.mode != kLimited {
			return 0, false
		}
		if r.counters {
			n := uint8(0)
			for _, p := range k.places {
				n += min(p.left, 1)
			}
			return 0, n < role.limit
		}
		for i := range role.limit {
			if slot := (role.first + i) % role.limit; !k.taken(slot) {
				return slot, true
			}
		}
		return 0, false
	}
	return 0, k.left == 0
}

func (k *kKey) taken(slot uint8) bool {
	for _, p := range k.places {
		if p.left > 0 && p.slot == slot {
			return true
		}
	}
	return false
}

// longest is when all who are in the key are gone.
func (k *kKey) longest() (left uint8) {
	for _, p := range k.places {
		left = max(left, p.left)
	}
	return left
}

// acquire is LOCK of these keys of a. All are free, or nothing is done.
func (r *kRun) acquire(s *kState, a, m int, keys uint8) {
	at, role, slot := &s.masters[m], r.roles[a], uint8(0)
	link := at.to[a]
	refused, waits := link.got == refusedHere, false
	for key := range kKeys {
		if keys>>key&1 == 0 {
			continue
		}
		free, ok := r.free(at, a, key)
		if slot = free; !ok {
			refused = true
			if waits = role.waits && at.keys[key].mode == kShared; waits {
				at.intent[key] = 1
			}
		}
	}
	if refused && !(waits && r.intentVotes) {
		link.got = refusedHere
	} else {
		fence := r.count(at, a, keys)
		if !refused {
			for key := range kKeys {
				if keys>>key&1 == 1 {
					at.put(a, key, role.mode, slot)
					at.intent[key] = 0
				}
			}
		}
		link.got, link.have, link.slot = max(link.got, fence), link.have|keys, slot
	}
	if phase := s.attempts[a].phase; phase < kAsking || phase > kHolding {
		return // nobody waits for the answer
	}
	at.to[a].got, at.to[a].have, at.to[a].slot = link.got, link.have, link.slot
	if link.have == role.keys && link.got != refusedHere {
		r.join(s, a, m)
	}
}

// count takes the next fence for a. All counters get the largest, so that each key's next is
// greater.
func (r *kRun) count(at *kMaster, a int, keys uint8) (fence uint8) {
	var own [kKeys]uint8
	for key := range kKeys {
		if keys>>key&1 == 0 {
			continue
		}
		own[key] = at.counter[r.counter(key)]
		joins := at.keys[key].left > 0 || r.neverCounts
		if r.roles[a].mode != kShared || r.alwaysCounts || !joins {
			own[key]++
		}
		fence = max(fence, own[key])
	}
	for key := range kKeys {
		if keys>>key&1 == 1 {
			to := fence
			if r.unleveled {
				to = own[key]
			}
			c := &at.counter[r.counter(key)]
			*c = max(*c, to)
		}
	}
	return fence
}

func (at *kMaster) put(a, key int, mode kMode, slot uint8) {
	k := &at.keys[key]
	k.mode, k.left = mode, max(k.left, kTTL)
	k.places[a] = kPlace{left: kTTL, slot: slot}
}

// stands reports whether a holds all its keys here, by its token.
func (r *kRun) stands(at *kMaster, a int) bool {
	ok := true
	r.each(a, func(key int) {
		p := at.keys[key].places[a]
		ok = ok && p.left > 0 && !p.dead
	})
	return ok
}

// raise raises the counters to a's fence where its lock stands.
func (r *kRun) raise(s *kState, a, m int) {
	at, who := &s.masters[m], s.attempts[a]
	ok := r.blind || r.stands(at, a) && at.to[a].slot == who.slot
	at.to[a].raise = raiseDenied
	if !ok {
		return
	}
	at.to[a].raise = raiseConfirmed
	r.each(a, func(key int) {
		if c := &at.counter[r.counter(key)]; key == 0 || !r.raiseFirst {
			*c = max(*c, who.fence)
		}
	})
}

// extend extends what stands of a's lock, and reports whether all does.
func (r *kRun) extend(at *kMaster, a int) bool {
	r.each(a, func(key int) {
		if p := &at.keys[key].places[a]; p.left > 0 && !p.dead {
			p.left = kTTL
			at.keys[key].left = max(at.keys[key].left, kTTL)
		}
	})
	return r.stands(at, a)
}

// keep closes what stands of a's lock, and reports whether all is closed.
func (r *kRun) keep(at *kMaster, a int) bool {
	all := r.stands(at, a)
	r.each(a, func(key int) {
		k := &at.keys[key]
		if p := &k.places[a]; p.left > 0 && !p.dead {
			p.left, p.dead = r.kept(), !r.tokenLives
			k.left = k.longest()
		}
	})
	return all
}

// fill sets the lock of a where it is missing, key by key. Where a reader is the first one it
// counts as in acquire: the fill may land long after its lock, and who joins it is later than any
// other.
func (r *kRun) fill(s *kState, a, m int) {
	at, fence, slot, mode := &s.masters[m], s.attempts[a].fence, s.attempts[a].slot, r.mode(s, a)
	r.each(a, func(key int) {
		k := &at.keys[key]
		joins := mode != kExclusive && k.mode == mode && k.places[a].left == 0
		if k.left > 0 && (!joins || mode == kLimited && !r.counters && k.taken(slot)) {
			return
		}
		c := &at.counter[r.counter(key)]
		if mode == kShared && k.left == 0 && !r.fillsQuietly {
			*c++
		}
		*c = max(*c, fence)
		at.put(a, key, mode, slot)
	})
}

// share makes the exclusive lock of a a shared one. Those who join are later than a token that
// was exclusive, so the counter has to be above its fence.
func (r *kRun) share(at *kMaster, a int, fence uint8) bool {
	if !r.stands(at, a) {
		return false
	}
	k := &at.keys[0]
	if k.mode == kExclusive && !r.sharesQuietly {
		at.counter[0] = max(at.counter[0], fence) + 1
	}
	k.mode = kShared
	return r.extend(at, a)
}

// release takes a out of its keys. Those who stay decide when the key expires.
func (r *kRun) release(at *kMaster, a int) {
	r.each(a, func(key int) {
		k := &at.keys[key]
		if p := k.places[a]; p.left == 0 || p.dead {
			return
		}
		k.places[a] = kPlace{}
		if left := k.longest(); left == 0 {
			*k = kKey{}
		} else if !r.expiryStays {
			k.left = left
		}
	})
}
