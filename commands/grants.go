package commands

import (
	"hash/maphash"
	"sync/atomic"
	"time"
)

// grants remembers when locks were granted here: how long one was held, and how old one is, which the masters do not know. It is a table of
// fixed size without a lock: a grant takes the place of another now and then, which then counts as unknown.
type grants struct {
	seed  maphash.Seed
	start time.Time
	slots [1 << 13]atomic.Uint64 // upper half: what the lock is called, lower half: milliseconds since start, and one
}

func newGrants() *grants { return &grants{seed: maphash.MakeSeed(), start: time.Now()} }

// name is what the lock of key with that fence is called, and its place.
func (g *grants) name(key string, fence uint64) (name uint64, slot *atomic.Uint64) {
	h := maphash.String(g.seed, key) ^ (fence+1)*0x9e3779b97f4a7c15
	return h &^ 0xffffffff, &g.slots[h%uint64(len(g.slots))]
}

// granted notes that a lock was granted now.
func (g *grants) granted(key string, fence uint64) {
	name, slot := g.name(key, fence)
	slot.Store(name | uint64(uint32(time.Since(g.start).Milliseconds()+1)))
}

// age is how long ago the lock was granted; 0 if that is not known. It may name the age of another lock once in four thousand million.
func (g *grants) age(key string, fence uint64) time.Duration {
	name, slot := g.name(key, fence)
	v := slot.Load()
	if v == 0 || v&^0xffffffff != name {
		return 0
	}
	now := uint32(time.Since(g.start).Milliseconds() + 1)
	return max(time.Duration(now-uint32(v))*time.Millisecond, time.Nanosecond)
}
