package quorum

import (
	"cmp"
	"slices"
	"time"

	"lockproxy/plain"
	"lockproxy/quorum/internal/wire"
	"lockproxy/stat"
)

// holderKey is what holders on different masters have in common: a token counts for one slot.
type holderKey struct {
	id   string
	slot int
}

// tallied is what the masters hold of one token.
type tallied struct {
	wire.Holder
	masters int // that hold it
	lefts   []time.Duration
	fences  []uint64 // as each has it
	modes   [Kept + 1]int
}

// winner says who holds a key, of which values are what each master holds: those that a majority
// has. A place that is closed counts only where nobody holds another. Held is 0 where there is
// none. most is how many masters hold the one that most of them have.
func winner(values []wire.Inspected) (info Info, most int) {
	info.Masters = len(values)
	all := tallyHolders(values)
	maj := majority(len(values))
	var latest *tallied
	for _, t := range all {
		most = max(most, t.masters)
		if t.masters < maj {
			continue
		}
		t.Fence = fenceOf(t.fences, maj)
		if !t.Closed {
			info.Holders++
		}
		if latest == nil || t.later(latest, maj) {
			latest = t
		}
		info.TTL = max(info.TTL, t.ttl(maj))
	}
	if latest == nil {
		return info, most
	}
	info.Held, info.Fence, info.Owner, info.Mode = latest.masters, latest.Fence, plain.Line(latest.Owner), latest.mode()
	switch info.Mode {
	case Shared:
		info.Holders = max(info.Holders, countOf(values, maj))
	case Limited:
		info.Slots = slotsOf(all, maj)
	}
	info.TTL, info.Latest = told(info.TTL), told(latest.ttl(maj))
	return info, most
}

// told is how Info has the time that something lives.
func told(left time.Duration) time.Duration {
	if left == wire.Forever {
		return -time.Millisecond
	}
	return left
}

// tallyHolders counts who holds what, in the order of their appearance.
func tallyHolders(values []wire.Inspected) (all []*tallied) {
	byKey := make(map[holderKey]*tallied, 1)
	for i := range values {
		for _, h := range values[i].Holders {
			key := holderKey{h.ID, h.Slot}
			t := byKey[key]
			if t == nil {
				t = &tallied{Holder: h}
				byKey[key] = t
				all = append(all, t)
			}
			t.masters++
			t.lefts = append(t.lefts, h.Left)
			t.modes[values[i].Mode]++
			t.fences = append(t.fences, h.Fence)
			t.Owner = cmp.Or(t.Owner, h.Owner)
		}
	}
	return all
}

// fenceOf is the fence of a token that masters have with these numbers: what a majority has, as it
// has had the token's own since the lease was made. A master that granted late has what it counted
// itself, which may be more. The largest where too few are told.
func fenceOf(numbers []uint64, maj int) uint64 {
	slices.Sort(numbers)
	for i := maj - 1; i < len(numbers); i++ {
		if numbers[i] == numbers[i-maj+1] {
			return numbers[i]
		}
	}
	return numbers[len(numbers)-1]
}

// ttl is after which time no majority of maj holds it.
func (t *tallied) ttl(maj int) time.Duration {
	slices.Sort(t.lefts)
	return t.lefts[t.masters-maj]
}

// later reports whether t is rather told than u.
func (t *tallied) later(u *tallied, maj int) bool {
	if t.Closed != u.Closed {
		return u.Closed
	}
	return t.Fence > u.Fence || t.Fence == u.Fence && t.ttl(maj) > u.ttl(maj)
}

// mode is how most masters hold it.
func (t *tallied) mode() Mode {
	if t.Closed {
		return Kept
	}
	for _, m := range []Mode{Shared, Limited} {
		if 2*t.modes[m] > t.masters {
			return m
		}
	}
	return Exclusive
}

// countOf is how many readers a majority has, where not all were told.
func countOf(values []wire.Inspected, maj int) int {
	var counts []int
	told := true
	for _, v := range values {
		if v.Mode == Shared {
			counts = append(counts, v.Count)
			told = told && v.Count == len(v.Holders)
		}
	}
	if told || len(counts) < maj {
		return 0
	}
	slices.Sort(counts)
	return counts[len(counts)-maj]
}

// slotsOf are the slots that a majority has, in order.
func slotsOf(all []*tallied, maj int) (slots []stat.Slot) {
	for _, t := range all {
		if t.masters >= maj {
			slots = append(slots, stat.Slot{Slot: t.Slot, Fence: t.Fence, Owner: plain.Line(t.Owner), TTL: t.ttl(maj)})
		}
	}
	slices.SortFunc(slots, func(a, b stat.Slot) int { return a.Slot - b.Slot })
	return slots
}
