package quorum

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"lockproxy/plain"
	"lockproxy/quorum/internal/wire"
)

// forever is how long a key without expiry lives.
const forever = time.Duration(math.MaxInt64)

// standing is what one master holds for a key. The zero value is nothing, or something that is no
// lock.
type standing struct {
	mode    Mode
	left    time.Duration
	count   int // how many hold it, which may be more than holders
	holders []holder
}

// holder is one who holds a lock on a master, or a place that was left closed.
type holder struct {
	id     string // what makes two values the same token
	closed bool
	slot   int
	left   time.Duration
	fence  uint64
	owner  string
}

// holderKey is what holders on different masters have in common: a token counts for one slot.
type holderKey struct {
	id   string
	slot int
}

func (h *holder) key() holderKey { return holderKey{h.id, h.slot} }

// standingOf reads what an inspection found; the zero value for anything that is no lock.
func standingOf(found *wire.Inspected) standing {
	if found == nil || !found.Found || found.Other {
		return standing{}
	}
	s := standing{mode: found.Mode, left: lasting(found.Left), count: found.Count}
	for _, f := range found.Holders {
		h := holder{id: f.Value, slot: f.Slot, left: lasting(f.Left)}
		if f.Value == "" {
			h.id = "\x00" // an empty string is a value too
		}
		if len(f.Value) >= wire.SecretLen {
			if fence, owner, ok := wire.BehindSecret(f.Value[wire.SecretLen:]); ok {
				h.id, h.fence, h.owner = f.Value[:wire.SecretLen], fence, owner
				h.closed = strings.HasPrefix(h.id, "kept")
			}
		}
		s.holders = append(s.holders, h)
	}
	return s
}

// lasting is how long something lives, for ever where left is negative.
func lasting(left time.Duration) time.Duration {
	if left < 0 {
		return forever
	}
	return left
}

// tallied is what the masters hold of one token.
type tallied struct {
	holder
	masters int // that hold it
	lefts   []time.Duration
	modes   [Kept + 1]int
}

// winner says who holds a key, of which values are what each master holds: those that a majority
// has. A place that is closed counts only where nobody holds another. Held is 0 where there is none.
// most is how many masters hold the one that most of them have.
func winner(values []standing) (info Info, most int) {
	info.Masters = len(values)
	all := tallyHolders(values)
	maj := majority(len(values))
	var latest *tallied
	for _, t := range all {
		most = max(most, t.masters)
		if t.masters < maj {
			continue
		}
		if !t.closed {
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
	info.Held, info.Fence, info.Owner, info.Mode = latest.masters, latest.fence, plain.Line(latest.owner), latest.mode()
	switch info.Mode {
	case Shared:
		info.Holders = max(info.Holders, countOf(values, maj))
	case Limited:
		info.Slots = slotsOf(all, maj)
	}
	if info.TTL == forever {
		info.TTL = -time.Millisecond
	}
	return info, most
}

// tallyHolders counts who holds what, in the order of their appearance.
func tallyHolders(values []standing) (all []*tallied) {
	byKey := make(map[holderKey]*tallied, 1)
	for i := range values {
		for _, h := range values[i].holders {
			t := byKey[h.key()]
			if t == nil {
				t = &tallied{holder: h}
				byKey[h.key()] = t
				all = append(all, t)
			}
			t.masters++
			t.lefts = append(t.lefts, h.left)
			t.modes[values[i].mode]++
			t.fence = max(t.fence, h.fence)
			t.owner = cmp.Or(t.owner, h.owner)
		}
	}
	return all
}

// ttl is after which time no majority of maj holds it.
func (t *tallied) ttl(maj int) time.Duration {
	slices.Sort(t.lefts)
	return t.lefts[t.masters-maj]
}

// later reports whether t is rather told than u.
func (t *tallied) later(u *tallied, maj int) bool {
	if t.closed != u.closed {
		return u.closed
	}
	return t.fence > u.fence || t.fence == u.fence && t.ttl(maj) > u.ttl(maj)
}

// mode is how most masters hold it.
func (t *tallied) mode() Mode {
	if t.closed {
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
func countOf(values []standing, maj int) int {
	var counts []int
	told := true
	for _, v := range values {
		if v.mode == Shared {
			counts = append(counts, v.count)
			told = told && v.count == len(v.holders)
		}
	}
	if told || len(counts) < maj {
		return 0
	}
	slices.Sort(counts)
	return counts[len(counts)-maj]
}

// slotsOf are the slots that a majority has, in order.
func slotsOf(all []*tallied, maj int) (slots []Slot) {
	for _, t := range all {
		if t.masters >= maj {
			slots = append(slots, Slot{t.slot, t.fence, plain.Line(t.owner), t.ttl(maj)})
		}
	}
	slices.SortFunc(slots, func(a, b Slot) int { return a.Slot - b.Slot })
	return slots
}
