package history

import (
	"cmp"
	"fmt"
	"slices"
)

// Fences is check C. It compares any two grants of a key that two clients cannot hold together. If
// the reply to one LOCK came before another LOCK was sent, the later has the greater fence, and
// the two never have the same. So the fence of an exclusive grant is greater than all before it,
// every fence is greater than those of exclusive grants before it, and the fences of one slot
// rise. Readers may have equal fences. The check needs only the order of events on one machine, so
// it holds under every fault.
func Fences(ops []Op) []Violation {
	holds := holdsOf(ops)
	var found []Violation
	for _, key := range keysOf(holds) {
		byReturn := holds[key]
		byCall := slices.Clone(byReturn)
		slices.SortFunc(byCall, func(a, b *hold) int { return cmp.Compare(a.lock.Call, b.lock.Call) })
		highest := highestFences{} // of the grants whose reply came before the present LOCK
		next := 0
		for _, h := range byCall {
			for ; next < len(byReturn) && byReturn[next].lock.Return < h.lock.Call; next++ {
				highest.add(byReturn[next].lock)
			}
			if o := highest.before(h.lock.place()); o != nil && h.lock.Fence < o.Fence {
				found = append(found, Violation{Check: "fence", Key: key, At: h.lock.Return, Text: fmt.Sprintf(
					"%d after %d: %v; %v", h.lock.Fence, o.Fence, o, h.lock)})
			}
		}
		found = append(found, sameFences(key, byReturn)...)
	}
	return found
}

// highestFences has the LOCK with the highest fence for each place.
type highestFences map[place]*Op

func (f highestFences) add(o *Op) {
	if p := o.place(); f[p] == nil || o.Fence > f[p].Fence {
		f[p] = o
	}
}

// before returns the LOCK with the highest fence that a later grant of that place must exceed, or
// nil.
func (f highestFences) before(p place) (highest *Op) {
	for other, o := range f {
		if other.rises(p) && (highest == nil || o.Fence > highest.Fence) {
			highest = o
		}
	}
	return highest
}

// sameFences finds fences that two grants have in common, at any time. Readers and holders of
// different slots may have equal fences.
func sameFences(key string, holds []*hold) []Violation {
	var found []Violation
	seen := map[uint64][]*Op{}
	for _, h := range holds {
		for _, other := range seen[h.lock.Fence] {
			if other.place().rises(h.lock.place()) && other.Secret() != h.lock.Secret() {
				found = append(found, Violation{Check: "fence", Key: key, At: h.lock.Return, Text: fmt.Sprintf(
					"%d given out twice: %v; %v", h.lock.Fence, other, h.lock)})
			}
		}
		seen[h.lock.Fence] = append(seen[h.lock.Fence], h.lock)
	}
	return found
}

// Tokens finds tokens that two LOCKs got. A LOCK whose reply came after its client had given up
// counts as well, because no other LOCK may get its token. A LOCK of several keys has one token. A
// token must also contain the fence of its grant.
func Tokens(ops []Op) []Violation {
	var found []Violation
	seen := map[string]*Op{}
	for i := range ops {
		o := &ops[i]
		if o.Kind != Lock || o.Token == "" {
			continue
		}
		if other := seen[o.Secret()]; other != nil && !other.sameCommand(o) {
			found = append(found, Violation{Check: "token", Key: o.Key, At: o.Return,
				Text: fmt.Sprintf("given out twice: %v; %v", other, o)})
		}
		seen[o.Secret()] = o
		if number := fmt.Sprintf("%016d:", o.Fence); o.Outcome == OK && o.Token[:min(len(number), len(o.Token))] != number {
			found = append(found, Violation{Check: "token", Key: o.Key, At: o.Return,
				Text: fmt.Sprintf("fence %d in token %.20s", o.Fence, o.Token)})
		}
	}
	return found
}

// sameCommand reports whether o and p belong to two keys of one command.
func (o *Op) sameCommand(p *Op) bool {
	return o.Key != p.Key && o.Client == p.Client && o.Call == p.Call && o.Return == p.Return
}
