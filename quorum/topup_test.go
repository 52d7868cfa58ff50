package quorum

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/quorum/internal/fake"
)

// B10: a master that missed the SET is set when it is back, for the rest of the ttl, with the
// fence of the token.
func TestTopUp(t *testing.T) {
	for _, c := range []struct {
		name       string
		away, back func(*fake.Master)
	}{
		{"down", (*fake.Master).Stop, (*fake.Master).Start},
		{"answered an error", func(m *fake.Master) { answering(m, "acquire", "-MISCONF disk\r\n") },
			func(m *fake.Master) { answering(m, "", "") }},
		{"script lost", (*fake.Master).FlushScripts, func(*fake.Master) {}},
		{"hung until the lane died, its memory lost", (*fake.Master).Pause, func(m *fake.Master) {
			time.Sleep(4 * time.Second)
			m.Stop()
			m.Start()
			m.Resume()
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, s *sim) {
				q := s.quorum()
				m := s.masters[2]
				c.away(m)
				synctest.Wait()
				setCounter(s.masters[0], "lock:job", 7)
				setCounter(s.masters[1], "lock:job", 7)
				start := time.Now()
				lease := mustAcquire(t, q, "job", 20*time.Second)
				c.back(m)
				time.Sleep(5 * time.Second)
				v, ok := at(m, "lock:job")
				if !ok || v.Secret != lease.Token.Secret || v.Fence != 8 {
					t.Fatalf("value %+v, %v, want ours with fence 8", v, ok)
				}
				if life := v.End.Sub(start); life > 20*time.Second || life < 19*time.Second {
					t.Errorf("lives until %v, want the rest of 20s", life)
				}
				if n := counter(m, "lock:job"); n != 8 {
					t.Errorf("counter %d, want 8", n)
				}
				mustRelease(t, q, "job", lease.Token)
				synctest.Wait()
				s.noKeys("after the release")
			})
		})
	}
}

// No top-up after the release, none over a refusal, none of a lock that has ended.
func TestNoTopUp(t *testing.T) {
	t.Run("released", func(t *testing.T) {
		inBubble(t, 3, func(t *testing.T, s *sim) {
			q := s.quorum()
			s.masters[2].Stop()
			synctest.Wait()
			lease := mustAcquire(t, q, "job", time.Minute)
			mustRelease(t, q, "job", lease.Token)
			s.masters[2].Start()
			time.Sleep(3 * time.Second)
			s.noKeys("after the master came back")
			if n := s.masters[2].Ran("topup"); n != 0 {
				t.Errorf("%d top-ups after the release", n)
			}
		})
	})
	t.Run("refused", func(t *testing.T) {
		inBubble(t, 3, func(t *testing.T, s *sim) {
			q := s.quorum()
			m := s.masters[2]
			m.Set(func() { m.SetLock("lock:job", "other", 0, "", time.Now().Add(time.Second)) })
			mustAcquire(t, q, "job", time.Minute)
			time.Sleep(3 * time.Second)
			if n := m.Ran("topup"); n != 0 {
				t.Errorf("%d top-ups on a master that refused", n)
			}
		})
	})
	t.Run("over", func(t *testing.T) {
		inBubble(t, 3, func(t *testing.T, s *sim) {
			q := s.quorum()
			s.masters[2].Stop()
			synctest.Wait()
			mustAcquire(t, q, "job", time.Second)
			time.Sleep(2 * time.Second)
			s.masters[2].Start()
			time.Sleep(2 * time.Second)
			if n := s.masters[2].Ran("topup"); n != 0 || q.Masters()[2].Repairs != 0 {
				t.Errorf("%d top-ups of a lock that is over, %d pending", n, q.Masters()[2].Repairs)
			}
		})
	})
}

// A master cannot be reached by either proxy when the lock is granted and released. Then it
// answers the release first, and is topped up after that. The check finds the token on the
// masters that made the lease, which are slow to release it. When they have, the release is
// repeated at the master that got it before the top-up.
func TestReleaseBeforeTopUp(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, s *sim) {
		var reached [2]atomic.Bool // the third master, by each proxy
		q, other := s.quorum(away(2, &reached[0])), s.quorum(away(2, &reached[1]))
		late := s.masters[2]
		lease := mustAcquire(t, q, "job", time.Minute)
		delayed(s.masters[0], "release", 1900*time.Millisecond)
		delayed(s.masters[1], "release", 1900*time.Millisecond)
		released := make(chan error, 1)
		go func() {
			_, err := other.Release(t.Context(), []string{"job"}, lease.Token, 0)
			released <- err
		}()
		reached[1].Store(true)
		for late.Ran("release") == 0 {
			time.Sleep(time.Millisecond)
		}
		reached[0].Store(true)
		untilChecked(q, late, lease)
		if n := s.masters[1].Ran("check"); n == 0 {
			t.Error("not checked")
		}
		if _, ours := s.masters[0].Holds("lock:job", lease.Token.Secret); !ours {
			t.Error("the release came early")
		}
		<-released
		time.Sleep(5 * time.Second)
		s.noKeys("after all")
	})
}

// As TestReleaseBeforeTopUp, and the answer of the release that came before the top-up is on its
// way until the others have deleted the token.
func TestReleaseBeforeTopUpOnItsWay(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, s *sim) {
		var reached [2]atomic.Bool
		late := s.masters[2]
		q := s.quorum(away(2, &reached[0]))
		other := s.quorum(away(2, &reached[1]), reading(2, func() error {
			if late.Ran("release") == 1 {
				time.Sleep(1800 * time.Millisecond)
			}
			return nil
		}))
		lease := mustAcquire(t, q, "job", time.Minute)
		delayed(s.masters[0], "release", 1500*time.Millisecond)
		delayed(s.masters[1], "release", 1500*time.Millisecond)
		go func() { _, _ = other.Release(context.Background(), []string{"job"}, lease.Token, 0) }()
		synctest.Wait()
		reached[1].Store(true)
		for late.Ran("release") == 0 {
			time.Sleep(time.Millisecond)
		}
		reached[0].Store(true)
		untilChecked(q, late, lease)
		if _, ours := s.masters[0].Holds("lock:job", lease.Token.Secret); !ours {
			t.Error("the release came early")
		}
		time.Sleep(5 * time.Second)
		s.noKeys("after all")
	})
}
