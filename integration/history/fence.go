package history

import (
	"cmp"
	"fmt"
	"slices"
)

// Fences is check C: where the reply to one LOCK came before another LOCK was sent, the fence of
// the later is greater, and no two grants of a key have the same. It needs no clock but the order
// of one client machine, so it holds under every fault.
func Fences(ops []Op) []Violation {
	holds := holdsOf(ops)
	var found []Violation
	for _, key := range keysOf(holds) {
		byReturn := holds[key]
		byCall := slices.Clone(byReturn)
		slices.SortFunc(byCall, func(a, b *hold) int { return cmp.Compare(a.lock.Call, b.lock.Call) })
		var highest *Op // of the grants whose reply came before the LOCK that is looked at
		next := 0
		for _, h := range byCall {
			for ; next < len(byReturn) && byReturn[next].lock.Return < h.lock.Call; next++ {
				if o := byReturn[next].lock; highest == nil || o.Fence > highest.Fence {
					highest = o
				}
			}
			if highest != nil && h.lock.Fence < highest.Fence {
				found = append(found, Violation{Check: "fence", Key: key, At: h.lock.Return, Text: fmt.Sprintf(
					"%d after %d: %v; %v", h.lock.Fence, highest.Fence, highest, h.lock)})
			}
		}
		found = append(found, sameFences(key, byReturn)...)
	}
	return found
}

// sameFences finds numbers that were given out twice, whenever that was.
func sameFences(key string, holds []*hold) []Violation {
	var found []Violation
	seen := map[uint64]*Op{}
	for _, h := range holds {
		if other := seen[h.lock.Fence]; other != nil && other.Secret() != h.lock.Secret() {
			found = append(found, Violation{Check: "fence", Key: key, At: h.lock.Return, Text: fmt.Sprintf(
				"%d given out twice: %v; %v", h.lock.Fence, other, h.lock)})
		}
		seen[h.lock.Fence] = h.lock
	}
	return found
}

// Tokens finds tokens that were given to two LOCKs. One whose reply came after its client had
// given up counts: its token must never be the answer to another. A token also carries the fence
// it was granted with.
func Tokens(ops []Op) []Violation {
	var found []Violation
	seen := map[string]*Op{}
	for i := range ops {
		o := &ops[i]
		if o.Kind != Lock || o.Token == "" {
			continue
		}
		if other := seen[o.Secret()]; other != nil {
			found = append(found, Violation{Check: "token", Key: o.Key, At: o.Return, Text: fmt.Sprintf("given out twice: %v; %v", other, o)})
		}
		seen[o.Secret()] = o
		if number := fmt.Sprintf("%016d:", o.Fence); o.Outcome == OK && o.Token[:min(len(number), len(o.Token))] != number {
			found = append(found, Violation{Check: "token", Key: o.Key, At: o.Return, Text: fmt.Sprintf("fence %d in token %.20s", o.Fence, o.Token)})
		}
	}
	return found
}
