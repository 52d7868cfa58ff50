package model

// How a master runs messages.

// arrive runs the first message of a lane.
func (r *run) arrive(s *state, a, m, lane int) {
	at := &s.masters[m]
	o, done := at.to[a].pop(lane).kind(), false
	switch o {
	case acquire, acquireSecond:
		keys := r.roles[a].keys
		if r.keyByKey && keys == 3 {
			keys = 1
			if r.roles[a].back != (o == acquireSecond) {
				keys = 2
			}
		}
		r.acquire(s, a, m, keys)
	case raise:
		r.raise(s, a, m)
	case extend:
		done = r.extend(at, a)
	case fill:
		r.fill(s, a, m)
	case share:
		done = r.share(at, a, s.attempts[a].fence)
	case keep:
		done = r.keep(at, a)
	case release:
		r.release(at, a)
		at.to[a].again = s.repeats > 0 && s.attempts[a].phase == over
	}
	if who := s.attempts[a]; o == who.asked && done {
		// The release of another slot may still be under way.
		at.to[a].done = at.keys[0].places[a].slot == who.slot || r.foundAnySlot
	}
}

// free reports whether a key accepts a, and in which slot.
func (r *run) free(at *master, a, key int) (slot uint8, ok bool) {
	role, k := r.roles[a], &at.keys[key]
	switch role.mode {
	case shared:
		return 0, at.intent[key] == 0 && (k.left == 0 || k.mode == shared)
	case limited:
		if k.left != 0 && k.mode != limited {
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

func (k *key) taken(slot uint8) bool {
	for _, p := range k.places {
		if p.left > 0 && p.slot == slot {
			return true
		}
	}
	return false
}

// longest returns how long the last holder stays.
func (k *key) longest() (left uint8) {
	for _, p := range k.places {
		left = max(left, p.left)
	}
	return left
}

// acquire grants these keys to a if all are free, and refuses otherwise.
func (r *run) acquire(s *state, a, m int, keys uint8) {
	at, role := &s.masters[m], r.roles[a]
	link := at.to[a]
	slot, taken, waits := r.examine(at, a, keys)
	held := link.got == refused || taken
	if held && !(waits && r.intentVotes) {
		link.got = refused
	} else {
		fence := r.count(at, a, keys)
		if !held {
			for key := range maxKeys {
				if keys>>key&1 == 1 {
					r.put(at, a, key, role.mode, slot)
					at.intent[key] = 0
				}
			}
		}
		link.got, link.have, link.slot = max(link.got, fence), link.have|keys, slot
	}
	if phase := s.attempts[a].phase; phase < asking || phase > holding {
		return // the answer is late
	}
	at.to[a].got, at.to[a].have, at.to[a].slot = link.got, link.have, link.slot
	if link.have == role.keys && link.got != refused {
		r.join(s, a, m)
	}
}

// examine returns the slot that a gets of the last of its keys; whether one is taken; and whether
// a leaves an intent at the last taken one.
func (r *run) examine(at *master, a int, keys uint8) (slot uint8, taken, waits bool) {
	for key := range maxKeys {
		if keys>>key&1 == 0 {
			continue
		}
		free, ok := r.free(at, a, key)
		if slot = free; !ok {
			taken = true
			if waits = r.roles[a].waits && at.keys[key].mode == shared; waits {
				at.intent[key] = 1
			}
		}
	}
	return slot, taken, waits
}

// count returns the next fence for a, and raises the counters of all its keys to it.
func (r *run) count(at *master, a int, keys uint8) (fence uint8) {
	if r.unfenced {
		return 1
	}
	var own [maxKeys]uint8
	for key := range maxKeys {
		if keys>>key&1 == 0 {
			continue
		}
		own[key] = at.counter[r.counter(key)]
		joins := at.keys[key].left > 0 || r.neverCounts
		if r.roles[a].mode != shared || r.alwaysCounts || !joins {
			own[key]++
		}
		fence = max(fence, own[key])
	}
	for key := range maxKeys {
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

func (r *run) put(at *master, a, key int, mode mode, slot uint8) {
	k := &at.keys[key]
	k.mode, k.left = mode, max(k.left, ttl)
	k.places[r.token(a)] = place{left: ttl, slot: slot}
}

// own calls f for each key that holds a's token, and reports whether all do.
func (r *run) own(at *master, a int, f func(k *key, p *place)) bool {
	all := true
	r.each(a, func(key int) {
		k := &at.keys[key]
		if p := &k.places[r.token(a)]; p.left > 0 && !p.dead {
			f(k, p)
		} else {
			all = false
		}
	})
	return all
}

func (r *run) holds(at *master, a int) bool { return r.own(at, a, func(*key, *place) {}) }

// raise raises the counters to a's fence if all its keys hold its token.
func (r *run) raise(s *state, a, m int) {
	at, who := &s.masters[m], s.attempts[a]
	ok := r.blind || r.holds(at, a) && at.to[a].slot == who.slot
	at.to[a].raise = denied
	if !ok {
		return
	}
	at.to[a].raise = confirmed
	r.each(a, func(key int) {
		if c := &at.counter[r.counter(key)]; key == 0 || !r.raiseFirst {
			*c = max(*c, who.fence)
		}
	})
}

// extend extends a's keys, and reports whether it found all.
func (r *run) extend(at *master, a int) bool {
	return r.own(at, a, func(k *key, p *place) {
		p.left = ttl
		k.left = max(k.left, ttl)
	})
}

// keep closes a's keys, and reports whether it found all.
func (r *run) keep(at *master, a int) bool {
	return r.own(at, a, func(k *key, p *place) {
		p.left, p.dead = r.kept(), !r.tokenLives
		k.left = k.longest()
	})
}

// fill sets missing keys of a, one by one. A first reader increments the counter, just like an
// acquire: the fill may land long after its lock, and later readers join it.
func (r *run) fill(s *state, a, m int) {
	at, fence, slot, mode := &s.masters[m], s.attempts[a].fence, s.attempts[a].slot, r.mode(s, a)
	r.each(a, func(key int) {
		k := &at.keys[key]
		joins := mode != exclusive && k.mode == mode && k.places[r.token(a)].left == 0
		if k.left > 0 && (!joins || mode == limited && !r.counters && k.taken(slot)) {
			return
		}
		c := &at.counter[r.counter(key)]
		if mode == shared && k.left == 0 && !r.fillsQuietly {
			*c++
		}
		*c = max(*c, fence)
		r.put(at, a, key, mode, slot)
	})
}

// share makes the exclusive lock of a shared. Readers that join come after an exclusive token, so
// the counter rises above its fence.
func (r *run) share(at *master, a int, fence uint8) bool {
	if !r.holds(at, a) {
		return false
	}
	k := &at.keys[0]
	if k.mode == exclusive && !r.sharesQuietly {
		at.counter[0] = max(at.counter[0], fence) + 1
	}
	k.mode = shared
	return r.extend(at, a)
}

// release removes a from its keys. The remaining holders decide when the key expires.
func (r *run) release(at *master, a int) {
	r.own(at, a, func(k *key, p *place) {
		*p = place{}
		if left := k.longest(); left == 0 {
			*k = key{}
		} else if !r.expiryStays {
			k.left = left
		}
	})
}
