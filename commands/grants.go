package commands

import (
	"hash/maphash"
	"sync/atomic"
	"time"

	"lockproxy/quorum"
)

// grants remembers when this proxy granted each lock, which the masters do not know. From it
// operators see how long locks were held (metric lock_hold_duration_seconds, held in the audit
// log) and how old a lock is (the page, lockproxy status).
//
// Of an exclusive lock it goes by key and fence, which the masters show to everybody. Holders that
// are there together may have one fence: of these it goes by key and secret. A lock of the lock
// listener has two entries by its value, too, one of them for its end.
//
// It also remembers the mode of a lock, which makes its release cheaper. Like everything here it
// may be wrong.
//
// It is a table of fixed size without a mutex. Each lock has two entries. If both are taken, the
// newer entry overwrites the older one, whose age is then unknown.
type grants struct {
	seed  maphash.Seed
	start time.Time
	// from above: part of the lock's hash, the mode in two bits, milliseconds since start and one, of
	// the grant or of the end
	entries [1 << 15]atomic.Uint64
}

func newGrants() *grants { return &grants{seed: maphash.MakeSeed(), start: time.Now()} }

func byFence(fence uint64) uint64 { return (fence + 1) * 0x9e3779b97f4a7c15 }

func (g *grants) byValue(value string) uint64 { return maphash.String(g.seed, value) + 1 }

// byEnd names the entry with the end of a lock instead of its begin.
func (g *grants) byEnd(value string) uint64 { return ^g.byValue(value) }

func (g *grants) bySecret(t quorum.Token) uint64 { return maphash.String(g.seed, t.Secret) }

// nameBits are the part of an entry that names the lock.
const nameBits = ^uint64(1<<34 - 1)

// name returns part of the hash of the lock of key with that id, and its entries.
func (g *grants) name(key string, id uint64) (name uint64, places [2]*atomic.Uint64) {
	h := maphash.String(g.seed, key) ^ id
	at := h % uint64(len(g.entries))
	return h & nameBits, [2]*atomic.Uint64{&g.entries[at], &g.entries[at^1]}
}

// now returns the time in the form of entries. It wraps around after 49 days.
func (g *grants) now() uint32 { return uint32(time.Since(g.start).Milliseconds() + 1) }

// granted records that a lock is granted now.
func (g *grants) granted(key string, t quorum.Token, mode quorum.Mode) {
	id := byFence(t.Fence)
	if mode != quorum.Exclusive {
		id = g.bySecret(t)
	}
	g.note(key, id, mode, g.now())
}

// adopted records that a lock with that value is granted now, for ttl.
func (g *grants) adopted(key, value string, ttl time.Duration) {
	g.note(key, g.byValue(value), quorum.Exclusive, g.now())
	g.refreshed(key, value, ttl)
}

// refreshed records that a lock with that value lasts for ttl from now. It reports whether that is
// less than was recorded before.
func (g *grants) refreshed(key, value string, ttl time.Duration) (shortened bool) {
	now, id := g.now(), g.byEnd(value)
	end := now + uint32(min(ttl.Milliseconds(), 1<<31-1))
	if _, place, entry := g.find(key, id); place != nil {
		before := uint32(entry)
		shortened = int32(before-now) > 0 && int32(before-end) > 0
		if place.CompareAndSwap(entry, entry&^(1<<32-1)|uint64(end)) {
			return shortened
		}
	}
	g.note(key, id, quorum.Exclusive, end)
	return shortened
}

// knowsValue reports whether a lock with that value was granted here, and not released since.
func (g *grants) knowsValue(key, value string) bool {
	_, place, _ := g.find(key, g.byValue(value))
	return place != nil
}

// releasedValue is released for a lock that is known by its value.
func (g *grants) releasedValue(key, value string) (age time.Duration) {
	for _, id := range []uint64{g.byEnd(value), g.byValue(value)} {
		d, place, entry := g.find(key, id)
		if age = d; place != nil {
			place.CompareAndSwap(entry, 0)
		}
	}
	return age
}

// shared records that an exclusive lock is a shared one from now on.
func (g *grants) shared(key string, t quorum.Token) {
	_, place, value := g.find(key, byFence(t.Fence))
	if place != nil && place.CompareAndSwap(value, 0) {
		g.note(key, g.bySecret(t), quorum.Shared, uint32(value))
	}
}

// note records that a lock was granted at now.
func (g *grants) note(key string, id uint64, mode quorum.Mode, now uint32) {
	name, places := g.name(key, id)
	a, b := places[0].Load(), places[1].Load()
	if a != 0 && (b == 0 || now-uint32(b) > now-uint32(a)) {
		places[1].Store(name | uint64(mode)<<32 | uint64(now))
		return
	}
	places[0].Store(name | uint64(mode)<<32 | uint64(now))
}

// age returns the time since the exclusive lock was granted, or 0 if that is not known. Once in
// five hundred million calls it may return the age of another lock.
func (g *grants) age(key string, fence uint64) time.Duration {
	d, _, _ := g.find(key, byFence(fence))
	return d
}

// mode returns the mode in which a lock was granted; Exclusive if that is not known.
func (g *grants) mode(key string, t quorum.Token) quorum.Mode {
	_, _, value := g.find(key, g.bySecret(t))
	return quorum.Mode(value >> 32 & 3)
}

// released returns the age of a lock that has ended, and frees its entry.
func (g *grants) released(key string, t quorum.Token) time.Duration {
	d, place, value := g.find(key, byFence(t.Fence))
	if place == nil {
		d, place, value = g.find(key, g.bySecret(t))
	}
	if place != nil {
		place.CompareAndSwap(value, 0)
	}
	return d
}

func (g *grants) find(key string, id uint64) (age time.Duration, place *atomic.Uint64, value uint64) {
	name, places := g.name(key, id)
	for _, place := range places {
		if v := place.Load(); v != 0 && v&nameBits == name {
			return max(time.Duration(g.now()-uint32(v))*time.Millisecond, time.Nanosecond), place, v
		}
	}
	return 0, nil, 0
}
