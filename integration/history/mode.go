package history

import "time"

// Mode is the kind of a lock.
type Mode uint8

// The modes. An EXTEND whose mode is Shared turned the lock into a shared one.
const (
	Exclusive Mode = iota
	Shared
	Limited
)

// String is the mode as commands name it.
func (m Mode) String() string { return [...]string{"", "SHARED", "LIMIT"}[m] }

// place is what a holder has of a key: all of it, a share, or a slot.
type place struct {
	mode Mode
	slot int // of Limited
}

// besides reports whether two may have a and b at the same time.
func (a place) besides(b place) bool {
	return a.mode == b.mode && (a.mode == Shared || a.mode == Limited && a.slot != b.slot)
}

// rises reports whether a grant of b after one of a has a greater fence. Nothing is promised of
// readers, of different slots and between the two.
func (a place) rises(b place) bool {
	return a.mode == Exclusive || b.mode == Exclusive || a == b && a.mode == Limited
}

// place is what a LOCK was granted.
func (o *Op) place() place { return place{o.Mode, o.Slot} }

// keeps reports whether o is an UNLOCK with KEEP.
func (o *Op) keeps() bool { return o.Kind == Unlock && o.TTL > 0 }

// downgrade reports whether o is an EXTEND with SHARED: from its sending on, the client counts on
// a share at most, whatever the reply.
func (o *Op) downgrade() bool { return o.Kind == Extend && o.Mode == Shared }

// claim is a time in which somebody counts on a place of a key.
type claim struct {
	*hold
	place
	from, until time.Duration
}

// claims are those of a hold, in their order: what was granted, a share from the sending of EXTEND
// SHARED on, and what UNLOCK KEEP closed for all.
func (h *hold) claims() []claim {
	first := claim{h, h.lock.place(), h.from(), h.until()}
	list := []claim{first}
	if h.shared != nil && h.shared.Call < first.until && first.mode == Exclusive {
		list[0].until = h.shared.Call
		list = append(list, claim{h, place{mode: Shared}, max(h.from(), h.shared.Call), first.until})
	}
	if k := h.kept; k != nil && k.Until() > k.Return {
		list = append(list, claim{h, list[len(list)-1].place, k.Return, k.Until()})
	}
	return list
}
