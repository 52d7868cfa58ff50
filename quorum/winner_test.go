package quorum

import (
	"strconv"
	"testing"
	"time"

	"lockproxy/quorum/internal/wire"
)

func TestWinnerIsWhomAMajorityHolds(t *testing.T) {
	mine, other := one(wire.Entry{ID: "a", Fence: 7, Owner: "me"}), one(wire.Entry{ID: "b"})
	left := func(s wire.Inspected, d time.Duration) wire.Inspected {
		h := s.Holders[0]
		h.Left = d
		return one(h)
	}
	for _, c := range []struct {
		name   string
		values []wire.Inspected
		held   int
		most   int
		ttl    time.Duration
	}{
		{"nothing", make([]wire.Inspected, 5), 0, 0, 0},
		{"all", []wire.Inspected{left(mine, 5), left(mine, 4), left(mine, 3), left(mine, 2), left(mine, 1)}, 5, 5, 3},
		{"bare majority", []wire.Inspected{left(mine, 5), {}, left(mine, 3), left(other, 9), left(mine, 1)}, 3, 3, 1},
		{"minority", []wire.Inspected{mine, mine, other, other, {}}, 0, 2, 0},
		{"for ever", []wire.Inspected{left(mine, wire.Forever), left(mine, wire.Forever), {}}, 2, 2,
			-time.Millisecond},
		{"one master", []wire.Inspected{left(mine, 5)}, 1, 1, 5},
		{"half of four", []wire.Inspected{mine, mine, {}, {}}, 0, 2, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			info, most := winner(c.values)
			if info.Held != c.held || most != c.most || info.TTL != c.ttl || info.Latest != c.ttl ||
				info.Masters != len(c.values) {
				t.Errorf("%+v, %d at most", info, most)
			}
			if c.held > 0 && (info.Fence != 7 || info.Owner != "me") || c.held == 0 && info.Fence != 0 {
				t.Errorf("%+v", info)
			}
		})
	}
}

// TestWinnerFence: the fence is that of the token, even if a master that granted late counted
// another.
func TestWinnerFence(t *testing.T) {
	for _, c := range []struct {
		name    string
		fences  []uint64 // by master; 0: it has no key
		want    uint64
		ofSlots bool
	}{
		{"all", []uint64{7, 7, 7}, 7, false},
		{"one granted late, with more", []uint64{9, 7, 7}, 7, false},
		{"one granted late, with less", []uint64{7, 5, 7}, 7, false},
		{"two granted late", []uint64{8, 7, 9, 7, 7}, 7, false},
		{"not all are told", []uint64{7, 0, 6}, 7, false},
		{"a slot", []uint64{9, 7, 7}, 7, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			values := make([]wire.Inspected, len(c.fences))
			for i, fence := range c.fences {
				if fence > 0 {
					values[i] = one(wire.Entry{ID: "a", Fence: fence})
				}
				if c.ofSlots {
					values[i].Mode = Limited
				}
			}
			info, _ := winner(values)
			if info.Fence != c.want || c.ofSlots && info.Slots[0].Fence != int64(c.want) {
				t.Errorf("%+v, want the fence %d", info, c.want)
			}
		})
	}
}

// TestWinnerLatest: of several that hold a lock, TTL is that of the last to go, Latest that of the
// one with the fence.
func TestWinnerLatest(t *testing.T) {
	both := wire.Inspected{Mode: Shared, Count: 2,
		Holders: []wire.Entry{{ID: "a", Fence: 7, Left: time.Minute}, {ID: "b", Fence: 8, Left: time.Second}}}
	info, _ := winner([]wire.Inspected{both, both, {}})
	if info.Fence != 8 || info.TTL != time.Minute || info.Latest != time.Second {
		t.Errorf("%+v, want fence 8 for a second, and the lock for a minute", info)
	}
}

// TestWinnerShowsLabel: blanks at the ends of a label belong to it.
func TestWinnerShowsLabel(t *testing.T) {
	for label, want := range map[string]string{"": "", " ": " ", "me ": "me ", " a  b ": " a  b ", "a\nb\t": "a b "} {
		t.Run(strconv.Quote(label), func(t *testing.T) {
			h := wire.Entry{ID: "a", Owner: label}
			if info, _ := winner([]wire.Inspected{one(h)}); info.Owner != want {
				t.Errorf("owner %q, want %q", info.Owner, want)
			}
			slots := one(h)
			slots.Mode = Limited
			if info, _ := winner([]wire.Inspected{slots}); len(info.Slots) != 1 || info.Slots[0].Owner != want {
				t.Errorf("slots %+v, want the owner %q", info.Slots, want)
			}
		})
	}
}

// one is a key that one holds.
func one(h wire.Entry) wire.Inspected {
	return wire.Inspected{Count: 1, Holders: []wire.Entry{h}}
}
