package quorum

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/quorum/internal/dice"
	"lockproxy/quorum/internal/fake"
	"lockproxy/quorum/internal/wire"
	"lockproxy/stat"
)

// B12: UNLOCK answers once, in bounded time: 1, 0 or ErrNoQuorum.
func TestRelease(t *testing.T) {
	for _, c := range []struct {
		name string
		fail func(s *sim, key string)
		ok   bool
		err  error
		took time.Duration
	}{
		{"held by all", func(*sim, string) {}, true, nil, 0},
		{"two masters hang", func(s *sim, _ string) { s.each(3, 5, (*fake.Master).Pause) }, true, nil, 0},
		{"two masters down", func(s *sim, _ string) { s.each(3, 5, (*fake.Master).Stop) }, true, nil, 0},
		{"three hang", func(s *sim, _ string) { s.each(2, 5, (*fake.Master).Pause) }, false, ErrNoQuorum, 50 * time.Millisecond},
		{"three down", func(s *sim, _ string) { s.each(2, 5, (*fake.Master).Stop) }, false, ErrNoQuorum, 0},
		{"lost on three", func(s *sim, key string) { s.each(0, 3, empty) }, false, nil, 0},
		{"lost on two", func(s *sim, key string) { s.each(0, 2, empty) }, true, nil, 0},
		{"lost on two, one down", func(s *sim, key string) {
			s.each(0, 2, empty)
			s.each(2, 3, (*fake.Master).Stop)
		}, true, nil, 0},
		{"lost on two, one hangs", func(s *sim, key string) {
			s.each(0, 2, empty)
			s.each(2, 3, (*fake.Master).Pause)
		}, true, nil, 50 * time.Millisecond},
		{"answers are errors", func(s *sim, key string) {
			s.each(0, 3, func(m *fake.Master) { answering(m, "release", "-LOADING Redis is loading\r\n") })
		}, false, ErrNoQuorum, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, 5, func(t *testing.T, s *sim) {
				q := s.quorum()
				lease := mustAcquire(t, q, "job", time.Minute)
				synctest.Wait()
				c.fail(s, "lock:job")
				synctest.Wait()
				start := time.Now()
				ok, err := q.Release(t.Context(), []string{"job"}, lease.Token, 0)
				if took := time.Since(start); ok != c.ok || !errors.Is(err, c.err) || took != c.took {
					t.Errorf("got %v, %v after %v, want %v, %v after %v", ok, err, took, c.ok, c.err, c.took)
				}
				// Whatever it said, nothing stays once the masters are back.
				s.each(0, 5, func(m *fake.Master) { answering(m, "", ""); m.Resume(); m.Start() })
				time.Sleep(3 * time.Second)
				s.noKeys("after the masters came back")
			})
		})
	}
}

func TestReleaseGivenUp(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, s *sim) {
		q := s.quorum()
		lease := mustAcquire(t, q, "job", time.Minute)
		synctest.Wait()
		s.each(0, 3, (*fake.Master).Pause)
		cause := errors.New("client hung up")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Millisecond, func() { cancel(cause) })
		if _, err := q.Release(ctx, []string{"job"}, lease.Token, 0); !errors.Is(err, cause) {
			t.Errorf("%v, want the cause", err)
		}
		s.each(0, 3, (*fake.Master).Resume)
		synctest.Wait()
		s.noKeys("after the caller left")
	})
}

func TestAbandon(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, s *sim) {
		q := s.quorum()
		lease := mustAcquire(t, q, "job", time.Minute)
		q.Abandon("job", lease.Token)
		synctest.Wait()
		s.noKeys("after Abandon")
	})
}

// A foreign or outdated token releases nothing.
func TestReleaseForeignToken(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, s *sim) {
		q := s.quorum()
		lease := mustAcquire(t, q, "job", time.Minute)
		foreign := Token{Fence: lease.Token.Fence, Secret: (*dice.Dice)(nil).Secret()}
		if ok, err := q.Release(t.Context(), []string{"job"}, foreign, 0); ok || err != nil {
			t.Errorf("Release = %v, %v, want false", ok, err)
		}
		synctest.Wait()
		for _, m := range s.masters {
			if _, ours := m.Holds("lock:job", lease.Token.Secret); !ours {
				t.Error("a foreign token took the lock away")
			}
		}
	})
}

// B31: an error reply of any kind is no vote, counted by kind, and does not break the lane.
func TestErrorRepliesAreNoVote(t *testing.T) {
	for _, kind := range []string{"LOADING", "MISCONF", "READONLY", "OOM", "BUSY", "NOPERM", "ERR"} {
		t.Run(kind, func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, s *sim) {
				q := s.quorum()
				answering(s.masters[0], "acquire", "-"+kind+" some \x01text\r\n")
				lease := mustAcquire(t, q, "job", time.Second)
				mustRelease(t, q, "job", lease.Token)
				answering(s.masters[1], "acquire", "-"+kind+" some \x01text\r\n")
				start := time.Now()
				_, err := q.Acquire(t.Context(), Request{Key: "job", TTL: 10 * time.Second})
				if !errors.Is(err, ErrNoQuorum) || time.Since(start) != 0 {
					t.Fatalf("%v after %v, want ErrNoQuorum at once", err, time.Since(start))
				}
				want := `1 of 3 masters can vote, 2 needed: 10.0.0.1:6379 answered "` + kind + ` some  text"; ` +
					`10.0.0.2:6379 answered "` + kind + ` some  text"`
				if err.Error() != want {
					t.Errorf("text %q, want %q", err, want)
				}
				if st := q.Masters()[0]; st.State != stat.StateVoting || st.ByKind[kind] != 2 || st.Errors != 2 {
					t.Errorf("status %+v, want voting with two errors", st)
				}
				synctest.Wait()
				s.noKeys("after the failure")
			})
		})
	}
}

// One proxy releases a lock, and at one master its release takes a while. Another finds the lock
// gone meanwhile, by an extension of the same holder or by a check:
// what it clears away must not be what the first is asked about. The lock was held until then.
func TestReleaseBesideOthers(t *testing.T) {
	for name, other := range map[string]func(q *Quorum, l Lease){
		"extension": func(q *Quorum, l Lease) {
			if _, err := q.Extend(context.Background(), []string{"job"}, l.Token, time.Minute, false); !errors.Is(err, ErrLost) {
				panic(err)
			}
		},
		"check": func(q *Quorum, l Lease) {
			q.checks.add(0, wire.TokenAt{Key: "lock:job", Secret: l.Token.Secret}, 0, time.Time{})
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, s *sim) {
				q, second := s.quorum(), s.quorum()
				lease := mustAcquire(t, q, "job", time.Minute)
				synctest.Wait()
				empty(s.masters[2])
				slow := q.opts.MasterTimeout - 2*time.Millisecond
				s.masters[0].Set(func() { // only the first, which comes from q
					var n atomic.Int32
					s.masters[0].Hook = func(c *fake.Command) (time.Duration, string) {
						if c.Is("release") && n.Add(1) == 1 {
							return slow, ""
						}
						return 0, ""
					}
				})
				time.AfterFunc(time.Millisecond, func() { other(second, lease) })
				if ok, err := q.Release(t.Context(), []string{"job"}, lease.Token, 0); !ok || err != nil {
					t.Errorf("got %v, %v for a lock that was held", ok, err)
				}
				time.Sleep(fadeTime + time.Second)
				s.noKeys("at the end")
			})
		})
	}
}
