package history

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// lockState is the model of one key: its last holders, and until when each may count on its place.
// It is immutable.
type lockState struct {
	holders []holder      // sorted by secret
	fences  []fence       // the highest of each place, sorted
	now     time.Duration // a lower bound: a LOCK was granted because a validity had ended by then
}

// holder is the last client that got a place.
type holder struct {
	secret string
	place  place
	held   bool // the client counts on the place
	until  time.Duration
}

// fence is the highest fence among the grants of a place.
type fence struct {
	place  place
	number uint64
}

func (s lockState) equal(o lockState) bool {
	return s.now == o.now && slices.Equal(s.holders, o.holders) && slices.Equal(s.fences, o.fences)
}

// String describes the state in a picture.
func (s lockState) String() string {
	var text strings.Builder
	fmt.Fprintf(&text, "at least %v", s.now)
	for _, h := range s.holders {
		fmt.Fprintf(&text, "; %.6s %v %d held %v until %v",
			h.secret, h.place.mode, h.place.slot, h.held, h.until)
	}
	return text.String()
}

// grant applies a LOCK. It is legal only if every holder that excludes it has ended, or its
// validity has.
func (s lockState) grant(o *Op) (bool, lockState) {
	p := o.place()
	for _, f := range s.fences {
		if f.place.rises(p) && o.Fence <= f.number {
			return false, s
		}
	}
	next := lockState{now: s.now}
	for _, h := range s.holders {
		switch {
		case h.place.besides(p):
			next.holders = append(next.holders, h)
		case h.held && o.Return < h.until:
			return false, s
		case h.held:
			next.now = max(next.now, h.until)
		}
	}
	next.add(holder{secret: o.Secret(), place: p, held: true, until: o.Until()})
	next.raise(s.fences, fence{p, o.Fence})
	return true, next
}

func (s *lockState) add(h holder) {
	s.holders = append(s.holders, h)
	slices.SortFunc(s.holders, func(a, b holder) int { return cmp.Compare(a.secret, b.secret) })
}

// raise sets the fences to a copy of those given, raised to f.
func (s *lockState) raise(fences []fence, f fence) {
	s.fences = slices.Clone(fences)
	for i := range s.fences {
		if s.fences[i].place == f.place {
			s.fences[i].number = max(s.fences[i].number, f.number)
			return
		}
	}
	s.fences = append(s.fences, f)
	slices.SortFunc(s.fences, func(a, b fence) int {
		return cmp.Or(cmp.Compare(a.place.mode, b.place.mode), cmp.Compare(a.place.slot, b.place.slot))
	})
}

// end applies an UNLOCK, or an EXTEND with reply 0. It remembers the holder of the whole key,
// because an UNLOCK whose reply was lost may never have been executed.
func (s lockState) end(o *Op) lockState {
	i := s.find(o)
	if i < 0 {
		return s
	}
	s.holders = slices.Clone(s.holders)
	h := &s.holders[i]
	switch {
	case o.keeps() && o.Outcome == OK:
		h.secret, h.held, h.until = keptMark+h.secret, true, o.Until()
	case h.place.mode == Exclusive:
		h.held = false
	default:
		s.holders = slices.Delete(s.holders, i, i+1)
	}
	return s
}

// extend applies an EXTEND with reply 1, or one with SHARED.
func (s lockState) extend(o *Op) (bool, lockState) {
	i := s.find(o)
	if i < 0 {
		return o.Outcome != OK, s
	}
	s.holders = slices.Clone(s.holders)
	h := &s.holders[i]
	if o.Outcome == OK {
		h.until = max(h.until, o.Until())
	}
	if o.downgrade() {
		h.place = place{mode: Shared}
	}
	return true, s
}

func (s lockState) find(o *Op) int {
	return slices.IndexFunc(s.holders, func(h holder) bool { return h.secret == o.Secret() })
}
