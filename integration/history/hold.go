package history

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// hold is one granted lock with the later commands for it.
type hold struct {
	lock    *Op
	extends []*Op // OK, in the order of Call
	end     *Op   // the first UNLOCK with any outcome, or EXTEND with reply 0; nil without one
	shared  *Op   // the first EXTEND SHARED with any outcome; nil without one
	kept    *Op   // the UNLOCK KEEP with reply 1; nil without one
}

// from returns the time at which the holder began to count on the lock.
func (h *hold) from() time.Duration { return h.lock.Return }

// until returns the time at which the holder stopped counting on the lock: at the end of validity,
// when it sent UNLOCK, or when it sent an EXTEND with reply 0. A later holder does not overlap
// with it, but after that EXTEND the lock was Lost. An EXTEND that succeeds proves that the lock
// was held all the time before, because a lost lock is never revived. So this is one interval,
// however late the EXTEND came.
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

// promised returns the end of validity according to the replies that had come at the time by.
func (h *hold) promised(by time.Duration) time.Duration {
	end := h.lock.Until()
	for _, e := range h.extends {
		if e.Return <= by {
			end = max(end, e.Until())
		}
	}
	return end
}

// holdsOf returns the granted locks of each key, in the order of their replies. A token that two
// LOCKs got makes two of them; its EXTENDs and its UNLOCK belong to the first.
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

// note keeps an EXTEND SHARED, and an UNLOCK KEEP with reply 1.
func (h *hold) note(o *Op) {
	if o.downgrade() && (h.shared == nil || o.Call < h.shared.Call) {
		h.shared = o
	}
	if o.keeps() && o.Outcome == OK {
		h.kept = o
	}
}

// endsClaim reports whether the client stops counting on the lock when it sends o.
func endsClaim(o *Op) bool { return o.Kind == Unlock || o.Kind == Extend && o.Outcome == No }

// keysOf returns the keys in order, so that two reports of one history are equal.
func keysOf[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
