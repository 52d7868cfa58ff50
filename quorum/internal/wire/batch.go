package wire

import "hash/maphash"

// Batch holds the operations of one packet. Releases and acquires of exclusive locks come first
// in it, because packet.lua expects them there. No operation of a batch has an answer yet, so no
// client can observe their order. But operations on one token keep theirs: a release that is not
// the first of its token is one of the others. So is an acquire that follows any of the others of
// its key, which may free it. The zero value is empty.
type Batch struct {
	ops    [MaxOps]*Op // in the order in which they came
	groups [MaxOps]group
	places [MaxOps]uint8 // in the packet; since the last AppendPacket
	n      int
	sizes  [numGroups]int
	tokens hashSet // of all, each at its key: a token of several keys is released at each
	keys   hashSet // of the other operations
}

// group is a kind of columns in a packet, or the operations without columns.
type group uint8

const (
	groupPublish group = iota // releases that publish
	groupRelease
	groupAcquire
	groupWait // acquires of clients that wait
	groupOther
	numGroups
)

// Reset empties the batch.
func (b *Batch) Reset() {
	clear(b.ops[:b.n]) // for the garbage collector
	b.n, b.sizes, b.tokens, b.keys = 0, [numGroups]int{}, hashSet{}, hashSet{}
}

// Len is how many operations the batch has.
func (b *Batch) Len() int { return b.n }

// Add adds an operation, which must not change until the packet is written. It is false if there
// is no room.
func (b *Batch) Add(op *Op) bool {
	if b.n == MaxOps {
		return false
	}
	g, key, secret := op.group(), hash(op.Key), hash(op.Secret)
	switch g {
	case groupPublish, groupRelease:
		if b.tokens.has(key ^ secret) {
			g = groupOther
		}
	case groupAcquire, groupWait:
		if b.keys.has(key) {
			g = groupOther
		}
	}
	b.tokens.add(key ^ secret)
	if g == groupOther {
		b.keys.add(key)
		for _, more := range op.more() {
			b.keys.add(hash(more))
			b.tokens.add(hash(more) ^ secret)
		}
	}
	b.ops[b.n], b.groups[b.n] = op, g
	b.n++
	b.sizes[g]++
	return true
}

// Place returns the index of the result of the i-th operation in the reply to the packet that was
// written last.
func (b *Batch) Place(i int) int { return int(b.places[i]) }

// arrange notes the places, and returns the operations in the order of the packet.
func (b *Batch) arrange() (ops [MaxOps]*Op) {
	var next [numGroups]int
	for g := 1; g < int(numGroups); g++ {
		next[g] = next[g-1] + b.sizes[g-1]
	}
	for i, op := range b.ops[:b.n] {
		at := &next[b.groups[i]]
		ops[*at], b.places[i] = op, uint8(*at)
		*at++
	}
	return ops
}

// hashSet is a set of hashes. It may have more than was added.
type hashSet [64]uint64

func (s *hashSet) add(h uint64)      { s[(h>>6)%64] |= 1 << (h % 64) }
func (s *hashSet) has(h uint64) bool { return s[(h>>6)%64]&(1<<(h%64)) != 0 }

var seed = maphash.MakeSeed()

func hash(text string) uint64 { return maphash.String(seed, text) }
