package history

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

func TestCheckFindsNoViolationInLegalHistoriesOfKinds(t *testing.T) {
	for seed := range uint64(50) {
		ops := inventKinds(seed, 2000, 1+int(seed%20), 16)
		if found := Check(ops, Options{}); len(found) > 0 {
			t.Fatalf("seed %d: got %d violations in a legal history, the first: %v, want none", seed, len(found), found[0])
		}
	}
}

// reads and slotted change the kind of a granted LOCK; downgrade makes an EXTEND SHARED, and keep
// an UNLOCK KEEP.
func reads(o Op) Op                 { o.Mode = Shared; return o }
func slotted(o Op, slot, of int) Op { o.Mode, o.Slot, o.Limit = Limited, slot, of; return o }
func downgrade(o Op) Op             { o.Mode = Shared; return o }
func keep(o Op, d time.Duration) Op { o.TTL, o.Validity, o.Label = d, d, "me"; return o }
func outcome(o Op, with Outcome) Op { o.Outcome = with; return o }
func ofKey(o Op, key string) Op     { o.Key = key; return o }
func limit2(o Op, slot int) Op      { return slotted(o, slot, 2) }

// seededKinds returns histories of one key with all kinds of locks. Most have one violation, not
// of fences or tokens.
func seededKinds() []seeded {
	first := grant(1, 1, 10, 0, 5*ms, 1000*ms)
	// These come while the first counts on its lock, or after that.
	beside := func(fence uint64) Op { return grant(2, 2, fence, 10*ms, 20*ms, 500*ms) }
	after := func(fence uint64) Op { return grant(2, 2, fence, 1010*ms, 1020*ms, 1500*ms) }
	down := downgrade(on(Extend, OK, first, 5*ms, 8*ms, 1000*ms))
	closed := keep(unlock(OK, first, 6*ms, 9*ms), 300*ms)
	return []seeded{
		{"readers together", "", []Op{reads(first), reads(beside(10))}},
		{"a reader beside a writer", "order overlap", []Op{first, reads(beside(11))}},
		{"a writer beside a reader", "order overlap", []Op{reads(first), beside(11)}},
		{"a reader beside a slot", "order overlap", []Op{limit2(first, 0), reads(beside(11))}},
		{"a writer beside a slot", "order overlap", []Op{limit2(first, 0), beside(11)}},
		{"slots together", "", []Op{limit2(first, 0), limit2(beside(11), 1)}},
		{"slots of other limits together", "", []Op{slotted(first, 5, 9), limit2(beside(11), 1)}},
		{"a slot held twice", "order overlap", []Op{limit2(first, 1), limit2(beside(11), 1)}},
		{"a slot held twice under two limits", "order overlap",
			[]Op{slotted(first, 1, 9), limit2(beside(11), 1)}},
		{"a slot beyond the limit", "slot", []Op{limit2(first, 2)}},
		{"a slot again after its end", "", []Op{limit2(first, 1), limit2(after(11), 1)}},
		{"a writer beside the second of two readers", "order overlap",
			[]Op{
				reads(grant(3, 3, 10, 0, 4*ms, 7*ms)), reads(first), beside(11)}},
		{"a reader after EXTEND SHARED", "", []Op{first, down, reads(beside(11))}},
		{"a reader after one without a reply", "",
			[]Op{first, outcome(down, Unknown), reads(beside(11))}},
		{"a reader before EXTEND SHARED", "order overlap", []Op{first, reads(beside(11)),
			downgrade(on(Extend, OK, first, 30*ms, 35*ms, 1000*ms))}},
		{"a writer after EXTEND SHARED", "order overlap", []Op{first, down, beside(11)}},
		{"a slot after EXTEND SHARED", "order overlap", []Op{first, down, limit2(beside(11), 0)}},
		{"after KEEP", "", []Op{first, closed, grant(2, 2, 11, 300*ms, 310*ms, 900*ms)}},
		{"within KEEP", "order overlap", []Op{first, closed, beside(11)}},
		{"a reader within KEEP", "order overlap", []Op{first, closed, reads(beside(11))}},
		{"a reader within a reader's KEEP", "", []Op{reads(first), closed, reads(beside(11))}},
		{"a writer within a reader's KEEP", "order overlap", []Op{reads(first), closed, beside(11)}},
		{"a slot within its KEEP", "order overlap",
			[]Op{limit2(first, 0), closed, limit2(beside(11), 0)}},
		{"a slot beside its KEEP", "", []Op{limit2(first, 0), closed, limit2(beside(11), 1)}},
		{"within KEEP without a reply", "", []Op{first, outcome(closed, Unknown), beside(11)}},
		{"EXTEND after KEEP", "order",
			[]Op{first, closed, on(Extend, OK, first, 20*ms, 25*ms, 500*ms)}},
		{"EXTEND of a reader that a writer followed", "order overlap", []Op{reads(first), after(11),
			on(Extend, OK, first, 1600*ms, 1605*ms, 2000*ms)}},
		{"EXTEND 0 of a reader", "lost",
			[]Op{reads(first), on(Extend, No, first, 20*ms, 25*ms, 500*ms)}},
		{"UNLOCK 0 of a slot", "lost", []Op{limit2(first, 0), unlock(No, first, 20*ms, 25*ms)}},
	}
}

// seededFencesOfKinds returns histories of one or two keys. Most have a fault in fences or tokens.
func seededFencesOfKinds() []seeded {
	first := grant(1, 1, 10, 0, 5*ms, 1000*ms)
	beside := func(fence uint64) Op { return grant(2, 2, fence, 10*ms, 20*ms, 500*ms) }
	after := func(fence uint64) Op { return grant(2, 2, fence, 1010*ms, 1020*ms, 1500*ms) }
	down := downgrade(on(Extend, OK, first, 5*ms, 8*ms, 1000*ms))
	return []seeded{
		{"readers with equal fences", "", []Op{reads(first), reads(after(10))}},
		{"a later reader with a lower fence", "", []Op{reads(first), reads(after(9))}},
		{"a reader after a writer with its fence", "fence order", []Op{first, reads(after(10))}},
		{"a reader after a writer with a lower fence", "fence order", []Op{first, reads(after(9))}},
		{"a writer after a reader with its fence", "fence order", []Op{reads(first), after(10)}},
		{"a writer after a reader with a lower fence", "fence order", []Op{reads(first), after(9)}},
		{"a reader with the fence before EXTEND SHARED", "fence order",
			[]Op{first, down, reads(beside(10))}},
		{"a slot with its fence again", "fence order", []Op{limit2(first, 0), limit2(after(10), 0)}},
		{"a slot with a lower fence", "fence order", []Op{limit2(first, 0), limit2(after(9), 0)}},
		{"another slot with a lower fence", "", []Op{limit2(first, 0), limit2(after(9), 1)}},
		{"a writer after a slot with its fence", "fence order", []Op{limit2(first, 0), after(10)}},
		{"a slot after a writer with a lower fence", "fence order", []Op{first, limit2(after(9), 0)}},

		{"one of several keys is held by another", "order overlap",
			[]Op{first, ofKey(first, "j"), beside(11)}},
		{"of several keys, one token", "", []Op{first, ofKey(first, "j")}},
		{"one token for two LOCKs of two keys", "token",
			[]Op{first, ofKey(grant(2, 1, 10, 10*ms, 20*ms, 500*ms), "j")}},
	}
}

// TestChecksFindSeededViolationsOfKinds puts each violation into a large legal history. The named
// checks must find it, and no others.
func TestChecksFindSeededViolationsOfKinds(t *testing.T) {
	clean := inventKinds(2, 4000, 8, 16)
	for _, c := range append(seededKinds(), seededFencesOfKinds()...) {
		t.Run(c.name, func(t *testing.T) {
			found := Check(slices.Concat(clean[:2000], c.ops, clean[2000:]), Options{})
			if got := names(found); got != c.want {
				t.Errorf("found by %q, want %q: %v", got, c.want, found)
			}
		})
	}
}

// TestKeptKeyIsAStrayAfterItsTTL: a key that UNLOCK KEEP closed may stay until its ttl has passed.
func TestKeptKeyIsAStrayAfterItsTTL(t *testing.T) {
	first := grant(1, 1, 10, 0, 5*ms, 1000*ms)
	closed := Found{Master: "m1", Key: "k", Value: fmt.Sprintf("kept%036d%016dme", 0, 10), Left: ms}
	ops := []Op{first, keep(unlock(OK, first, 6*ms, 9*ms), 300*ms)}
	unknown := []Op{first, outcome(ops[1], Unknown)}
	for _, c := range []struct {
		name string
		ops  []Op
		at   time.Duration
		want int
	}{
		{"closed", ops, 300 * ms, 0},
		{"too long", ops, 330 * ms, 1},
		{"perhaps closed late", unknown, 3200 * ms, 0},
		{"perhaps closed, too long", unknown, 3400 * ms, 1},
		{"without KEEP", []Op{first, unlock(OK, first, 6*ms, 9*ms)}, 10 * ms, 1},
		{"without a lock", nil, 10 * ms, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := Strays([]Found{closed}, c.ops, c.at, 3000*ms); len(got) != c.want {
				t.Errorf("got %v, want %d strays", got, c.want)
			}
		})
	}
}
