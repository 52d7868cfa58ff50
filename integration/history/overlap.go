package history

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Overlaps is check A: no two holders of one key count at the same time on places that exclude
// each other. An exclusive holder is alone, readers are never beside another kind, and no slot has
// two holders. A holder counts on its lock from the reply to its LOCK until the end of validity
// (counted from the sending), until it sends UNLOCK, or until it sends an EXTEND with reply 0. A
// place that UNLOCK KEEP closed counts as held.
func Overlaps(ops []Op) []Violation {
	holds := holdsOf(ops)
	var found []Violation
	for _, key := range keysOf(holds) {
		var all []claim
		for _, h := range holds[key] {
			all = append(all, h.claims()...)
			found = append(found, h.wrongSlot()...)
		}
		found = append(found, overlaps(key, all)...)
	}
	return found
}

// overlaps compares the claims of one key.
func overlaps(key string, all []claim) []Violation {
	slices.SortStableFunc(all, func(a, b claim) int { return cmp.Compare(a.from, b.from) })
	var found []Violation
	var open []claim // that have not ended when the next begins
	for _, c := range all {
		open = slices.DeleteFunc(open, func(o claim) bool { return o.until <= c.from })
		if c.from >= c.until {
			continue
		}
		for _, o := range open {
			if o.hold != c.hold && !o.besides(c.place) {
				found = append(found, Violation{Check: "overlap", Key: key, At: c.from, Text: fmt.Sprintf(
					"held by two for %v: %v; %v", min(c.until, o.until)-c.from, o.hold, c.hold)})
			}
		}
		open = append(open, c)
	}
	return found
}

// wrongSlot returns a violation if the slot is not below the limit of the LOCK.
func (h *hold) wrongSlot() []Violation {
	o := h.lock
	if o.Mode != Limited || o.Slot >= 0 && o.Slot < o.Limit {
		return nil
	}
	return []Violation{{Check: "slot", Key: o.Key, At: o.Return, Text: "not under its limit: " + o.String()}}
}

// String describes the hold on one line.
func (h *hold) String() string {
	var text strings.Builder
	text.WriteString(h.lock.String())
	for _, e := range h.extends {
		text.WriteString(fmt.Sprintf(", extended at %v until %v", e.Call, e.Until()))
	}
	if h.end != nil {
		text.WriteString(fmt.Sprintf(", %s %s at %v", h.end.Kind, h.end.Outcome, h.end.Call))
	}
	if h.kept != nil {
		text.WriteString(fmt.Sprintf(", closed until %v", h.kept.Until()))
	}
	return text.String()
}

// Lost finds locks that ended while their holder counted on them: UNLOCK or EXTEND with reply 0
// before the end of validity. It does not matter whether another client got the lock. A proxy must
// not believe a master that has lost its memory.
func Lost(ops []Op) []Violation {
	holds := holdsOf(ops)
	bySecret := map[string]*hold{}
	for _, list := range holds {
		for _, h := range list {
			bySecret[h.lock.Key+" "+h.lock.Secret()] = h
		}
	}
	var found []Violation
	for i := range ops {
		o := &ops[i]
		h := bySecret[o.Key+" "+o.Secret()]
		if o.Kind == Lock || o.Outcome != No || h == nil {
			continue
		}
		if released := h.end != nil && h.end != o && h.end.Call <= o.Return; released {
			continue
		}
		if o.Return < h.promised(o.Call) {
			found = append(found, Violation{Check: "lost", Key: o.Key, At: o.Return, Text: fmt.Sprintf("%v; but %v", o, h)})
		}
	}
	return found
}
