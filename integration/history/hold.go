package history

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// hold is one lock that was granted, and what became of it.
type hold struct {
	lock    *Op
	extends []*Op // OK, in the order of Call
	end     *Op   // the first UNLOCK, whatever came back, or EXTEND that was answered 0; nil without one
	shared  *Op   // the first EXTEND SHARED, whatever came back; nil without one
	kept    *Op   // the UNLOCK KEEP that was answered 1; nil without one
}

// from is when the holder began to count on the lock.
func (h *hold) from() time.Duration { return h.lock.Return }

// until is when the holder stopped to count on it: at the end of validity, when it sent UNLOCK, or
// when it sent the EXTEND that was answered 0. What another holds from then on is no overlap, but
// the lock was Lost. An EXTEND that succeeded says that the lock stood all the time until then,
// since a lock that was lost is never revived. So this is one interval, however late the EXTEND
// came.
func (h *hold) until() time.Duration {
	end := h.lock.Until()
	for _, e := range h.extends {
		end = max(end, e.Until())
	}
	if h.end != nil {
		end = min(end, h.end.Call)
	}
	return end
}

// promised is until when the lock was good, by the replies that had come at the time by.
func (h *hold) promised(by time.Duration) time.Duration {
	end := h.lock.Until()
	for _, e := range h.extends {
		if e.Return <= by {
			end = max(end, e.Until())
		}
	}
	return end
}

// holdsOf returns the granted locks of each key, in the order of their replies. A token that was
// granted twice makes two of them; its EXTENDs and its UNLOCK are added to the first.
func holdsOf(ops []Op) map[string][]*hold {
	holds := map[string][]*hold{}
	bySecret := map[string]*hold{}
	for i := range ops {
		if o := &ops[i]; o.Kind == Lock && o.Outcome == OK {
			h := &hold{lock: o}
			holds[o.Key] = append(holds[o.Key], h)
			if id := o.Key + " " + o.Secret(); bySecret[id] == nil {
				bySecret[id] = h
			}
		}
	}
	for i := range ops {
		o := &ops[i]
		h := bySecret[o.Key+" "+o.Secret()]
		if h != nil {
			h.note(o)
		}
		switch {
		case h == nil || o.Kind == Lock:
		case o.Kind == Extend && o.Outcome == OK:
			h.extends = append(h.extends, o)
		case endsClaim(o) && (h.end == nil || o.Call < h.end.Call):
			h.end = o
		}
	}
	for _, list := range holds {
		slices.SortFunc(list, func(a, b *hold) int { return cmp.Compare(a.from(), b.from()) })
		for _, h := range list {
			slices.SortFunc(h.extends, func(a, b *Op) int { return cmp.Compare(a.Call, b.Call) })
		}
	}
	return holds
}

// note keeps what changes the kind of a hold, and what closes the key after it.
func (h *hold) note(o *Op) {
	if o.downgrade() && (h.shared == nil || o.Call < h.shared.Call) {
		h.shared = o
	}
	if o.keeps() && o.Outcome == OK {
		h.kept = o
	}
}

// endsClaim reports whether the client does not count on the lock from the sending of o on.
func endsClaim(o *Op) bool { return o.Kind == Unlock || o.Kind == Extend && o.Outcome == No }

// keysOf returns the keys in order, so that reports of one history are the same.
func keysOf[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
