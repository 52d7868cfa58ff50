package history

import "strings"

import "fmt"

// Overlaps is check A: no two holders of one key count on it at the same time. A holder does so
// from the reply to its LOCK until the end of validity, counted from the sending, until it sends
// UNLOCK, or until it sends the EXTEND that is answered 0.
func Overlaps(ops []Op) []Violation {
	holds := holdsOf(ops)
	var found []Violation
	for _, key := range keysOf(holds) {
		var last *hold // of those before, the one that ends last
		for _, h := range holds[key] {
			if last != nil && h.from() < last.until() && h.from() < h.until() {
				found = append(found, Violation{Check: "overlap", Key: key, At: h.from(), Text: fmt.Sprintf(
					"held by two for %v: %v; %v", min(h.until(), last.until())-h.from(), last, h)})
			}
			if last == nil || h.until() > last.until() {
				last = h
			}
		}
	}
	return found
}

// String is what a report says of a hold.
func (h *hold) String() string {
	var text strings.Builder
	text.WriteString(h.lock.String())
	for _, e := range h.extends {
		text.WriteString(fmt.Sprintf(", extended at %v until %v", e.Call, e.Until()))
	}
	if h.end != nil {
		text.WriteString(fmt.Sprintf(", %s %s at %v", h.end.Kind, h.end.Outcome, h.end.Call))
	}
	return text.String()
}

// Lost finds locks that were gone while their holder counted on them: an UNLOCK or EXTEND that was
// answered 0 before the end of validity. Nobody else need have got the lock; but a master that
// lost its memory must not be believed when it says so.
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
