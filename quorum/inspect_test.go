package quorum

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/quorum/internal/fake"
)

// shorten makes the lock of job end 5s earlier.
func shorten(m *fake.Master) {
	v, _ := at(m, "lock:job")
	m.Set(func() { m.SetEnd("lock:job", v.End.Add(-5*time.Second)) })
}

func TestInspectShowsWhatAMajorityHas(t *testing.T) {
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
		{"two hang", func(s *sim) { s.each(3, 5, (*fake.Master).Pause) }, 3,
			9*time.Second - 50*time.Millisecond, nil, 50 * time.Millisecond},
		{"three down", func(s *sim) { s.each(2, 5, (*fake.Master).Stop) }, 0, 0, ErrNoQuorum, 0},
		{"lost on three", func(s *sim) { s.each(0, 3, empty) }, 0, 0, nil, 0},
		{"lost on two", func(s *sim) { s.each(0, 2, empty) }, 3, 9 * time.Second, nil, 0},
		{"the silent ones may make a majority",
			func(s *sim) { s.each(0, 2, empty); s.each(4, 5, (*fake.Master).Stop) }, 0, 0, ErrNoQuorum, 0},
		{"the silent ones make no difference", func(s *sim) { s.each(0, 3, empty); s.each(4, 5, (*fake.Master).Stop) },
			0, 0, nil, 0},
		{"errors", func(s *sim) { s.each(2, 5, func(m *fake.Master) { answering(m, "inspect", "-LOADING no\r\n") }) },
			0, 0, ErrNoQuorum, 0},
		{"shorter on two", func(s *sim) { s.each(0, 2, shorten) }, 5, 9 * time.Second, nil, 0},
		{"shorter on three", func(s *sim) { s.each(0, 3, shorten) }, 5, 4 * time.Second, nil, 0},
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
					want = Info{Key: "job", Held: c.held, Masters: 5, TTL: c.ttl, Latest: c.ttl,
						Holders: min(c.held, 1)}
				}
				if c.held > 0 {
					want.Fence, want.Owner = lease.Token.Fence, "me 1"
				}
				if took := time.Since(start); !reflect.DeepEqual(info, want) || !errors.Is(err, c.err) ||
					took != c.took {
					t.Errorf("%+v, %v after %v, want %+v, %v after %v", info, err, took, want, c.err, c.took)
				}
			})
		})
	}
}

// Two of four are no majority to say that a lock is free.
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
		if _, err := q.Extend(t.Context(), []string{"job"}, lease.Token, 10*time.Second,
			false); !errors.Is(err, ErrLost) {
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

// A release by an operator wakes the clients that wait.
func TestReleaseKeyIsTold(t *testing.T) {
	_, addrs := startMasters(t, 3)
	q := dialQuorum(t, addrs)
	var h heard
	defer q.Watch(t.Context(), "job", h.add)()
	waitSubscribed(t, addrs, "lock:job")
	lease := eventually(t, q, "job", time.Minute)
	waitDrained(t, []*Quorum{q})
	if ok, err := q.ReleaseKey(t.Context(), "job"); !ok || err != nil {
		t.Errorf("ReleaseKey = %v, %v", ok, err)
	}
	if id := ReleaseID(lease.Token.Secret); !poll(aWhile, func() bool { return h.count(id) == 3 }) {
		t.Errorf("told %v, want %s by all", h.ids, id)
	}
}
