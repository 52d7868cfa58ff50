package wire

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// A batch keeps the order of operations on one token, and of an acquire after an operation that
// may free its key. Each operation has a place of its own, and a group has adjacent places.
func TestBatch(t *testing.T) {
	dice := rand.New(rand.NewPCG(3, 3))
	for range 2000 {
		b, ops := randomBatch(t, dice)
		fenced.AppendPacket(nil, b, "", false)
		wantOrder(t, b, ops)
	}
}

// randomBatch returns a batch of random operations, most of them acquires and releases.
func randomBatch(t *testing.T, dice *rand.Rand) (b *Batch, ops []*Op) {
	t.Helper()
	b = new(Batch)
	for range 1 + dice.IntN(MaxOps) {
		o := randomOp(dice)
		if dice.IntN(4) > 0 { // most are
			o.Kind, o.Terms, o.TTL = []OpKind{Acquire, Release}[dice.IntN(2)], nil, 0
		}
		o.Secret = fmt.Sprintf("%040x", dice.IntN(6))
		if !b.Add(o) {
			t.Fatal("full before it has MaxOps")
		}
		ops = append(ops, o)
	}
	return b, ops
}

// wantOrder fails unless each operation has a place of its own, and those of one token, and an
// acquire and other operations of its key, keep their order.
func wantOrder(t *testing.T, b *Batch, ops []*Op) {
	t.Helper()
	at := map[int]bool{}
	for i, o := range ops {
		at[b.Place(i)] = true
		if b.arrange()[b.Place(i)] != o {
			t.Fatal("an operation has the place of another")
		}
		for j, before := range ops[:i] {
			swapped := b.Place(j) > b.Place(i)
			if swapped && sharesToken(before, o) && o.Kind != Acquire {
				t.Fatalf("%s of a token goes out before %s, which came first", o.operation().name, before.operation().name)
			}
			if swapped && before.Key == o.Key && o.Kind == Acquire && b.groups[j] == groupOther {
				t.Fatalf("an acquire goes out before %s of its key, which came first", before.operation().name)
			}
		}
	}
	if len(at) != len(ops) || b.Len() != len(ops) {
		t.Fatalf("%d places for %d operations", len(at), len(ops))
	}
}

// sharesToken reports whether both are of one token at one key at least.
func sharesToken(a, b *Op) bool {
	keys := append([]string{b.Key}, b.more()...)
	return a.Secret == b.Secret && slices.ContainsFunc(append([]string{a.Key}, a.more()...),
		func(key string) bool { return slices.Contains(keys, key) })
}

// A batch takes no more than a packet may have, and is empty after Reset.
func TestBatchIsFull(t *testing.T) {
	var b Batch
	for range 2 {
		for i := range MaxOps {
			if !b.Add(acquire(fmt.Sprint(i), mine)) {
				t.Fatalf("full with %d operations", i)
			}
		}
		if b.Add(acquire("more", mine)) || b.Len() != MaxOps {
			t.Error("takes more than MaxOps")
		}
		b.Reset()
	}
}
