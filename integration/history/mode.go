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

// String returns the mode in the words of commands.
func (m Mode) String() string { return [...]string{"", "SHARED", "LIMIT"}[m] }

// place is the part of a key that a holder has: all of it, a share, or a slot.
type place struct {
	mode Mode
	slot int // of Limited
}

// besides reports whether two clients may hold a and b at the same time.
func (a place) besides(b place) bool {
	return a.mode == b.mode && (a.mode == Shared || a.mode == Limited && a.slot != b.slot)
}

// rises reports whether a grant of b after a grant of a must have a greater fence. The contract
// makes no promise for two readers, for different slots, and for a reader and a slot.
func (a place) rises(b place) bool {
	return a.mode == Exclusive || b.mode == Exclusive || a == b && a.mode == Limited
}

// place returns the place that a LOCK got.
func (o *Op) place() place { return place{o.Mode, o.Slot} }

// keeps reports whether o is an UNLOCK with KEEP.
func (o *Op) keeps() bool { return o.Kind == Unlock && o.TTL > 0 }

// downgrade reports whether o is an EXTEND with SHARED. Once the client has sent it, it counts on
// a share at most, even after an error.
func (o *Op) downgrade() bool { return o.Kind == Extend && o.Mode == Shared }

// claim is a time in which a holder counts on a place of a key.
type claim struct {
	*hold
	place
	from, until time.Duration
}

// claims returns the claims of a hold in their order: the granted place, then a share from the
// sending of EXTEND SHARED, then the place that UNLOCK KEEP keeps closed.
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
