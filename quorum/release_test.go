package quorum

import (
	"context"
	"errors"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/quorum/internal/dice"
	"lockproxy/quorum/internal/fake"
	"lockproxy/quorum/internal/wire"
	"lockproxy/stat"
)

// B12: UNLOCK answers once, in bounded time: 1, 0 or ErrNoQuorum.
func TestReleaseAnswersInBoundedTime(t *testing.T) {
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
		{"three hang", func(s *sim, _ string) { s.each(2, 5, (*fake.Master).Pause) }, false, ErrNoQuorum,
			50 * time.Millisecond},
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
				// After any answer, no key is left once the masters are back.
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

func TestAbandonLeavesNoKey(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, s *sim) {
		q := s.quorum()
		lease := mustAcquire(t, q, "job", time.Minute)
		q.Abandon("job", lease.Token)
		synctest.Wait()
		s.noKeys("after Abandon")
	})
}

// A foreign or outdated token does not release a lock.
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

// One proxy releases a lock, and at one master its release takes a while. Another finds the lock
// lost meanwhile, by an extension of the same holder or by a check: the keys it clears away must
// not change the answer of the first. The lock was held until then.
func TestReleaseBesideOthers(t *testing.T) {
	for name, other := range map[string]func(q *Quorum, l Lease){
		"extension": func(q *Quorum, l Lease) {
			if _, err := q.Extend(context.Background(), []string{"job"}, l.Token, time.Minute,
				false); !errors.Is(err, ErrLost) {
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

// No release is pending for a master that was never sent the token.
func TestReleaseOwesNothing(t *testing.T) {
	t.Run("a master is down", func(t *testing.T) {
		inBubble(t, 3, func(t *testing.T, s *sim) {
			q := s.quorum()
			s.masters[2].Stop()
			synctest.Wait()
			for range 3 {
				lease := mustAcquire(t, q, "job", time.Minute)
				mustRelease(t, q, "job", lease.Token)
				synctest.Wait()
			}
			if n := q.Masters()[2].Repairs; n != 0 {
				t.Errorf("%d releases pending, want none", n)
			}
		})
	})
	t.Run("a master is in quarantine", func(t *testing.T) {
		inBubble(t, 3, func(t *testing.T, s *sim) {
			q := s.quorum(func(o *Options) { o.Guard = GuardOn })
			m := s.masters[2]
			m.FlushAll()
			time.Sleep(2 * time.Second)
			if state := q.Masters()[2].State; state != stat.StateQuarantined {
				t.Fatalf("the master is %v", state)
			}
			lease := mustAcquire(t, q, "job", time.Minute)
			mustRelease(t, q, "job", lease.Token)
			time.Sleep(2 * time.Second)
			if n := m.Ran("release"); n != 1 {
				t.Errorf("%d releases, want 1", n)
			}
		})
	})
}

// A master has deleted the token, and the connection broke before it could say so. The check had
// found the token on a majority, so the release is repeated at the master that got it before the
// late grant.
func TestReleaseAnswerLost(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, s *sim) {
		late := s.masters[2]
		q := s.quorum()
		var broke atomic.Bool
		other := s.quorum(reading(0, func() error {
			if s.masters[0].Ran("release") == 1 && broke.CompareAndSwap(false, true) {
				return syscall.ECONNRESET
			}
			return nil
		}))
		delayed(late, "acquire", 20*time.Millisecond)
		delayed(s.masters[0], "release", 500*time.Millisecond)
		delayed(s.masters[1], "release", 500*time.Millisecond)
		lease := mustAcquire(t, q, "job", time.Minute)
		go func() { _, _ = other.Release(context.Background(), []string{"job"}, lease.Token, 0) }()
		untilChecked(q, late, lease)
		for i, m := range s.masters {
			if _, ours := m.Holds("lock:job", lease.Token.Secret); !ours {
				t.Errorf("master %d has no key", i+1)
			}
		}
		time.Sleep(5 * time.Second)
		if !broke.Load() {
			t.Error("the connection did not break")
		}
		s.noKeys("after all")
	})
}

// A grant lands after another proxy released the lock, and its release is still pending for a
// second master: the check finds a majority that seems to hold the token. When the second master
// carries out the release, the proxy repeats it everywhere.
func TestReleaseCarriedOutLate(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, s *sim) {
		q := s.quorum()
		var whole atomic.Bool
		other := s.quorum(away(1, &whole))
		delayed(s.masters[2], "acquire", 20*time.Millisecond)
		lease := mustAcquire(t, q, "job", time.Minute)
		mustRelease(t, other, "job", lease.Token)
		time.Sleep(3 * time.Second)
		if _, ours := s.masters[2].Holds("lock:job", lease.Token.Secret); !ours {
			t.Error("the late grant was released although a majority seemed to hold the lock")
		}
		whole.Store(true)
		time.Sleep(5 * time.Second)
		s.noKeys("with all back")
	})
}
