package quorum

import (
	"cmp"
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/quorum/internal/fake"
	"lockproxy/quorum/internal/master"
	"lockproxy/quorum/internal/wire"
)

func TestWinner(t *testing.T) {
	mine, other := one(wire.Holder{ID: "a", Fence: 7, Owner: "me"}), one(wire.Holder{ID: "b"})
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
		{"for ever", []wire.Inspected{left(mine, wire.Forever), left(mine, wire.Forever), {}}, 2, 2, -time.Millisecond},
		{"one master", []wire.Inspected{left(mine, 5)}, 1, 1, 5},
		{"half of four", []wire.Inspected{mine, mine, {}, {}}, 0, 2, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			info, most := winner(c.values)
			if info.Held != c.held || most != c.most || info.TTL != c.ttl || info.Latest != c.ttl || info.Masters != len(c.values) {
				t.Errorf("%+v, %d at most", info, most)
			}
			if c.held > 0 && (info.Fence != 7 || info.Owner != "me") || c.held == 0 && info.Fence != 0 {
				t.Errorf("%+v", info)
			}
		})
	}
}

// TestWinnerFence: the fence is that of the token, whatever a master counted that granted late.
func TestWinnerFence(t *testing.T) {
	for _, c := range []struct {
		name    string
		fences  []uint64 // by master; 0: it holds nothing
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
					values[i] = one(wire.Holder{ID: "a", Fence: fence})
				}
				if c.ofSlots {
					values[i].Mode = Limited
				}
			}
			info, _ := winner(values)
			if info.Fence != c.want || c.ofSlots && info.Slots[0].Fence != c.want {
				t.Errorf("%+v, want the fence %d", info, c.want)
			}
		})
	}
}

// TestWinnerLatest: of several that hold a lock, TTL is that of the last to go, Latest that of the
// one with the fence.
func TestWinnerLatest(t *testing.T) {
	both := wire.Inspected{Mode: Shared, Count: 2, Holders: []wire.Holder{{ID: "a", Fence: 7, Left: time.Minute}, {ID: "b", Fence: 8, Left: time.Second}}}
	info, _ := winner([]wire.Inspected{both, both, {}})
	if info.Fence != 8 || info.TTL != time.Minute || info.Latest != time.Second {
		t.Errorf("%+v, want fence 8 for a second, and the lock for a minute", info)
	}
}

// TestWinnerShowsLabel: blanks at the ends of a label belong to it.
func TestWinnerShowsLabel(t *testing.T) {
	for label, want := range map[string]string{"": "", " ": " ", "me ": "me ", " a  b ": " a  b ", "a\nb\t": "a b "} {
		h := wire.Holder{ID: "a", Owner: label}
		if info, _ := winner([]wire.Inspected{one(h)}); info.Owner != want {
			t.Errorf("%q: owner %q, want %q", label, info.Owner, want)
		}
		slots := one(h)
		slots.Mode = Limited
		if info, _ := winner([]wire.Inspected{slots}); len(info.Slots) != 1 || info.Slots[0].Owner != want {
			t.Errorf("%q: slots %+v, want the owner %q", label, info.Slots, want)
		}
	}
}

// one is a key that one holds.
func one(h wire.Holder) wire.Inspected {
	return wire.Inspected{Count: 1, Holders: []wire.Holder{h}}
}

func TestReadInspect(t *testing.T) {
	mine := strings.Repeat("0123456789abcdef", 3)[:40]
	ours := mine + "0000000000000042label"
	for _, c := range []struct {
		r    wire.Reply
		want wire.Inspected
		fail bool
	}{
		{r: wire.Reply{Kind: '$', Null: true}},
		{r: wire.Reply{Kind: '+', Text: "OTHER"}},
		{wire.Reply{Kind: '$', Text: "1500 " + ours}, one(wire.Holder{ID: mine, Left: 1500 * time.Millisecond, Fence: 42, Owner: "label"}), false},
		{wire.Reply{Kind: '$', Text: "-1 " + ours}, one(wire.Holder{ID: mine, Left: wire.Forever, Fence: 42, Owner: "label"}), false},
		{wire.Reply{Kind: '$', Text: "10 YTdlMzRk=="}, one(wire.Holder{ID: "YTdlMzRk==", Left: 10 * time.Millisecond, Fence: 0, Owner: ""}), false},
		{wire.Reply{Kind: '$', Text: "10 "}, one(wire.Holder{ID: "\x00", Left: 10 * time.Millisecond, Fence: 0, Owner: ""}), false},
		{wire.Reply{Kind: '$', Text: "10 " + mine + "00000000000000x2"}, one(wire.Holder{ID: mine + "00000000000000x2", Left: 10 * time.Millisecond, Fence: 0, Owner: ""}), false},
		{wire.Reply{Kind: '$', Text: "10 " + mine}, one(wire.Holder{ID: mine, Left: 10 * time.Millisecond, Fence: 0, Owner: ""}), false},
		{wire.Reply{Kind: '$', Text: "x y"}, wire.Inspected{}, true},
		{wire.Reply{Kind: ':'}, wire.Inspected{}, true},
	} {
		a := read(wire.Inspect, &master.Answer{Reply: c.r})
		if got := *cmp.Or(a.found, new(wire.Inspected)); !reflect.DeepEqual(got, c.want) || a.state.counts() == c.fail {
			t.Errorf("%+v: %+v, counts %v, want %+v", c.r, got, a.state.counts(), c.want)
		}
	}
}

func TestInspect(t *testing.T) {
	for _, c := range []struct {
		name string
		fail func(s *sim)
		held int
		ttl  time.Duration
		err  error
		took time.Duration
	}{
		{"held by all", func(*sim) {}, 5, 9 * time.Second, nil, 0},
		{"two down", func(s *sim) { s.each(3, 5, (*fake.Master).Stop) }, 3, 9 * time.Second, nil, 0},
		{"two hang", func(s *sim) { s.each(3, 5, (*fake.Master).Pause) }, 3, 9 * time.Second, nil, 50 * time.Millisecond},
		{"three down", func(s *sim) { s.each(2, 5, (*fake.Master).Stop) }, 0, 0, ErrNoQuorum, 0},
		{"lost on three", func(s *sim) { s.each(0, 3, empty) }, 0, 0, nil, 0},
		{"lost on two", func(s *sim) { s.each(0, 2, empty) }, 3, 9 * time.Second, nil, 0},
		{"the silent ones may make a majority", func(s *sim) { s.each(0, 2, empty); s.each(4, 5, (*fake.Master).Stop) }, 0, 0, ErrNoQuorum, 0},
		{"the silent ones make no difference", func(s *sim) { s.each(0, 3, empty); s.each(4, 5, (*fake.Master).Stop) }, 0, 0, nil, 0},
		{"errors", func(s *sim) { s.each(2, 5, func(m *fake.Master) { answering(m, "inspect", "-LOADING no\r\n") }) }, 0, 0, ErrNoQuorum, 0},
		{"shorter on two", func(s *sim) {
			s.each(0, 2, func(m *fake.Master) {
				v, _ := at(m, "lock:job")
				m.Set(func() { m.SetEnd("lock:job", v.End.Add(-5*time.Second)) })
			})
		}, 5, 9 * time.Second, nil, 0},
		{"shorter on three", func(s *sim) {
			s.each(0, 3, func(m *fake.Master) {
				v, _ := at(m, "lock:job")
				m.Set(func() { m.SetEnd("lock:job", v.End.Add(-5*time.Second)) })
			})
		}, 5, 4 * time.Second, nil, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, 5, func(t *testing.T, s *sim) {
				q := s.quorum()
				lease, err := q.Acquire(t.Context(), Request{Key: "job", TTL: 10 * time.Second, Owner: "me 1"})
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Second)
				c.fail(s)
				synctest.Wait()
				start := time.Now()
				info, err := q.Inspect(t.Context(), "job")
				want := Info{}
				if c.err == nil {
					want = Info{Key: "job", Held: c.held, Masters: 5, TTL: c.ttl, Latest: c.ttl, Holders: min(c.held, 1)}
				}
				if c.held > 0 {
					want.Fence, want.Owner = lease.Token.Fence, "me 1"
				}
				if took := time.Since(start); !reflect.DeepEqual(info, want) || !errors.Is(err, c.err) || took != c.took {
					t.Errorf("%+v, %v after %v, want %+v, %v after %v", info, err, took, want, c.err, c.took)
				}
			})
		})
	}
}

// Two of four are no majority to say that nobody holds it.
func TestInspectHalf(t *testing.T) {
	inBubble(t, 4, func(t *testing.T, s *sim) {
		q := s.quorum()
		s.each(2, 4, (*fake.Master).Stop)
		synctest.Wait()
		if info, err := q.Inspect(t.Context(), "job"); !errors.Is(err, ErrNoQuorum) {
			t.Errorf("%+v, %v, want ErrNoQuorum", info, err)
		}
	})
}

// ErrHeld says how soon a majority could grant: B19, the timer beside the subscription.
func TestHeldErrorFree(t *testing.T) {
	for _, c := range []struct {
		name  string
		lefts []time.Duration // of the keys in the way; 0: none
		want  time.Duration
	}{
		{"all alike", []time.Duration{9, 9, 9, 9, 9}, 9},
		{"the majority-th", []time.Duration{4, 9, 2, 7, 3}, 4},
		{"granting ones at once", []time.Duration{0, 0, 7, 8, 9}, 7},
		{"a majority later", []time.Duration{0, 5, 7, 8, 9}, 7},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, 5, func(t *testing.T, s *sim) {
				q := s.quorum()
				for i, left := range c.lefts {
					if m := s.masters[i]; left > 0 {
						m.Set(func() { m.SetLock("lock:job", "x", 0, "", time.Now().Add(left*time.Second)) })
					}
				}
				free := make(chan time.Duration, 1)
				a := newAttempt(&acquisition{q: q, r: Request{Key: "lock:job", TTL: time.Second}, stage: stageOver})
				a.acq.mu.Lock()
				a.askLocked()
				a.acq.mu.Unlock()
				q.Flush()
				synctest.Wait()
				a.acq.mu.Lock()
				free <- a.freeIn()
				a.failLocked()
				a.acq.mu.Unlock()
				q.Flush()
				if got := <-free; got != c.want*time.Second {
					t.Errorf("free in %v, want %ds", got, c.want)
				}
				_, err := q.Acquire(t.Context(), Request{Key: "job", TTL: time.Second})
				held, ok := errors.AsType[*HeldError](err)
				if !ok || !errors.Is(err, ErrHeld) || held.Free < 0 {
					t.Errorf("%v, %+v", err, held)
				}
			})
		})
	}
	t.Run("never", func(t *testing.T) {
		inBubble(t, 3, func(t *testing.T, s *sim) {
			q := s.quorum()
			s.each(0, 3, func(m *fake.Master) { m.Set(func() { m.SetLock("lock:job", "x", 0, "", time.Time{}) }) })
			_, err := q.Acquire(t.Context(), Request{Key: "job", TTL: time.Second})
			if held, ok := errors.AsType[*HeldError](err); !ok || held.Free >= 0 {
				t.Errorf("%v, %+v, want never", err, held)
			}
		})
	})
}

func TestReleaseKey(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, s *sim) {
		q := s.quorum()
		lease := mustAcquire(t, q, "job", 10*time.Second)
		synctest.Wait()
		s.each(3, 5, (*fake.Master).Stop)
		synctest.Wait()
		if ok, err := q.ReleaseKey(t.Context(), "job"); !ok || err != nil {
			t.Errorf("ReleaseKey = %v, %v, want true", ok, err)
		}
		if _, err := q.Extend(t.Context(), []string{"job"}, lease.Token, 10*time.Second, false); !errors.Is(err, ErrLost) {
			t.Errorf("Extend: %v, want ErrLost", err)
		}
		if ok, err := q.ReleaseKey(t.Context(), "job"); ok || err != nil {
			t.Errorf("again: %v, %v, want false", ok, err)
		}
		s.each(2, 3, (*fake.Master).Stop)
		synctest.Wait()
		if ok, err := q.ReleaseKey(t.Context(), "job"); ok || !errors.Is(err, ErrNoQuorum) {
			t.Errorf("without a majority: %v, %v, want ErrNoQuorum", ok, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := q.ReleaseKey(ctx, "job"); !errors.Is(err, context.Canceled) {
			t.Errorf("%v, want the cause", err)
		}
	})
}

// A release by an operator wakes those who wait.
func TestReleaseKeyIsTold(t *testing.T) {
	_, addrs := startMasters(t, 3)
	q := dialQuorum(t, addrs, patient)
	var h heard
	defer q.Watch(t.Context(), "job", h.add)()
	if !poll(5*time.Second, func() bool { return subscribed(t, addrs, "lock:job") == 3 }) {
		t.Fatal("not subscribed")
	}
	lease := eventually(t, q, "job", time.Minute)
	waitDrained(t, []*Quorum{q})
	if ok, err := q.ReleaseKey(t.Context(), "job"); !ok || err != nil {
		t.Errorf("ReleaseKey = %v, %v", ok, err)
	}
	if id := ReleaseID(lease.Token.Secret); !poll(5*time.Second, func() bool { return h.count(id) == 3 }) {
		t.Errorf("told %v, want %s by all", h.ids, id)
	}
}
