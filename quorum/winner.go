package quorum

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"time"

	"lockproxy/plain"
	"lockproxy/quorum/internal/wire"
	"lockproxy/stat"
)

// holderKey identifies a holder on all masters: a token counts for one slot.
type holderKey struct {
	id   string
	slot int
}

// tallied is one holder, counted on all masters.
type tallied struct {
	wire.Entry
	masters int // that hold it
	lefts   []time.Duration
	fences  []uint64 // by master
	modes   [Kept + 1]int
}

// winner returns the holders of a key that hold a majority; values has the holders on each
// master. A place that is closed counts only if there is no other holder. Held is 0 if no holder
// has a majority. most is the largest number of masters that have one holder.
func winner(values []wire.Inspected) (info Info, most int) {
	info, _, most = winnerOf(values, majority(len(values)))
	return info, most
}

// mostHeld is winner for answers of a minority: it returns the holder that most masters have.
func mostHeld(values []wire.Inspected) (info Info, latest *tallied) {
	_, most := winner(values)
	info, latest, _ = winnerOf(values, max(most, 1))
	return info, latest
}

// winnerOf is winner for maj masters in place of a majority. latest is the winning token, nil
// without one.
func winnerOf(values []wire.Inspected, maj int) (info Info, latest *tallied, most int) {
	info.Masters = len(values)
	all := tallyHolders(values)
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
		return info, nil, most
	}
	info.Held, info.Fence, info.Mode = latest.masters, latest.Fence, latest.mode()
	info.Owner, info.Adopted = label(latest.Owner)
	switch info.Mode {
	case Shared:
		info.Holders = max(info.Holders, countOf(values, maj))
	case Limited:
		info.Slots = slotsOf(all, maj)
	}
	info.TTL, info.Latest = infoTTL(info.TTL), infoTTL(latest.ttl(maj))
	return info, latest, most
}

// label returns an owner in printable form. The value of an adopted lock is a secret, so its label
// has 8 digits of a hash instead.
func label(owner string) (shown string, adopted bool) {
	value, adopted := wire.ValueOf(owner)
	if !adopted {
		return plain.Line(owner), false
	}
	return OwnerOfValue(value), true
}

// OwnerOfValue returns the label of an adopted lock, which does not reveal its value.
func OwnerOfValue(value string) string {
	sum := sha256.Sum256([]byte(value))
	return "adopted " + hex.EncodeToString(sum[:4])
}

// infoTTL returns a ttl in the form of Info.
func infoTTL(left time.Duration) time.Duration {
	if left == wire.Forever {
		return -time.Millisecond
	}
	return left
}

// tallyHolders counts holders on all masters, in the order of their appearance.
func tallyHolders(values []wire.Inspected) (all []*tallied) {
	byKey := make(map[holderKey]*tallied, 1)
	for i := range values {
		for _, h := range values[i].Holders {
			key := holderKey{h.ID, h.Slot}
			t := byKey[key]
			if t == nil {
				t = &tallied{Entry: h}
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

// fenceOf returns the fence of a token that masters have with these numbers: the number of a
// majority, which has carried it since the lease was made. A master that granted late has the
// number that it counted itself, which may be larger. Without a majority fenceOf returns the
// largest.
func fenceOf(numbers []uint64, maj int) uint64 {
	slices.Sort(numbers)
	for i := maj - 1; i < len(numbers); i++ {
		if numbers[i] == numbers[i-maj+1] {
			return numbers[i]
		}
	}
	return numbers[len(numbers)-1]
}

// ttl returns the time after which no majority of maj holds it.
func (t *tallied) ttl(maj int) time.Duration {
	slices.Sort(t.lefts)
	return t.lefts[t.masters-maj]
}

// later reports whether Info should show t instead of u.
func (t *tallied) later(u *tallied, maj int) bool {
	if t.Closed != u.Closed {
		return u.Closed
	}
	return t.Fence > u.Fence || t.Fence == u.Fence && t.ttl(maj) > u.ttl(maj)
}

// mode returns the mode on most masters.
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

// countOf returns how many readers a majority has, or 0 if the masters listed all of them.
func countOf(values []wire.Inspected, maj int) int {
	var counts []int
	complete := true
	for _, v := range values {
		if v.Mode == Shared {
			counts = append(counts, v.Count)
			complete = complete && v.Count == len(v.Holders)
		}
	}
	if complete || len(counts) < maj {
		return 0
	}
	slices.Sort(counts)
	return counts[len(counts)-maj]
}

// slotsOf returns the slots that a majority has, in order.
func slotsOf(all []*tallied, maj int) (slots []stat.Slot) {
	for _, t := range all {
		if t.masters >= maj {
			owner, _ := label(t.Owner)
			slots = append(slots, stat.Slot{Slot: int64(t.Slot), Fence: int64(t.Fence), Owner: owner,
				TTL: t.ttl(maj).Milliseconds()})
		}
	}
	slices.SortFunc(slots, func(a, b stat.Slot) int { return int(a.Slot - b.Slot) })
	return slots
}
