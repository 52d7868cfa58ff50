package quorum

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/quorum/internal/fake"
)

// An attempt takes at most a quarter of a short ttl.
func TestAttemptTimeoutFollowsTTL(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, s *sim) {
		q := s.quorum()
		s.each(1, 3, (*fake.Master).Pause)
		start := time.Now()
		_, err := q.Acquire(t.Context(), Request{Key: "job", TTL: 100 * time.Millisecond})
		if took := time.Since(start); !errors.Is(err, ErrNoQuorum) || took != 25*time.Millisecond {
			t.Errorf("%v after %v, want ErrNoQuorum after 25ms", err, took)
		}
	})
}

// B4, B5: a grant that comes after the whole ttl is no grant, and leaves no key.
func TestGrantAfterItsTTLIsNone(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, s *sim) {
		q := s.quorum()
		s.each(0, 3, func(m *fake.Master) { delayed(m, "acquire", time.Millisecond) })
		if _, err := q.Acquire(t.Context(), Request{Key: "job", TTL: 3 * time.Millisecond}); !errors.Is(err, ErrLate) {
			t.Errorf("%v, want ErrLate", err)
		}
		synctest.Wait()
		s.noKeys("after ErrLate")
		for _, m := range s.masters {
			if a, r := m.Ran("acquire"), m.Ran("release"); a != 1 || r != 1 {
				t.Errorf("%d acquires, %d releases, want one each", a, r)
			}
		}
		s.each(0, 3, func(m *fake.Master) { delayed(m, "acquire", 900*time.Microsecond) })
		if lease := mustAcquire(t, q, "job", 3*time.Millisecond); lease.Validity != 70*time.Microsecond {
			t.Errorf("validity %v, want 70µs", lease.Validity)
		}
	})
}

// B7: two proxies, each nearer to its half of the masters, split the vote. They part by random
// delays, far within the ttl, and exactly one wins.
func TestSplitVoteConverges(t *testing.T) {
	for range 20 {
		inBubble(t, 4, func(t *testing.T, s *sim) {
			quorums := []*Quorum{s.quorum(s.nearTo(0, 2)), s.quorum(s.nearTo(2, 4))}
			wantOneWinner(t, quorums)
			synctest.Wait()
			if n := s.masters[0].Ran("acquire"); n <= 2 {
				t.Errorf("%d acquires: the vote was not split", n)
			}
		})
	}
}

// wantOneWinner acquires a key through all quorums at once.
func wantOneWinner(t *testing.T, quorums []*Quorum) {
	t.Helper()
	type result struct {
		err  error
		took time.Duration
	}
	results := make(chan result, 2)
	for _, q := range quorums {
		go func() {
			start := time.Now()
			_, err := q.Acquire(t.Context(), Request{Key: "job", TTL: 10 * time.Second})
			results <- result{err, time.Since(start)}
		}()
	}
	wins := 0
	for range quorums {
		r := <-results
		if r.err == nil {
			wins++
		} else if !errors.Is(r.err, ErrHeld) {
			t.Errorf("%v, want ErrHeld", r.err)
		}
		if r.took > 200*time.Millisecond {
			t.Errorf("took %v", r.took)
		}
	}
	if wins != 1 {
		t.Errorf("%d winners, want 1", wins)
	}
}

// A split vote is retried four times with growing random delays and a fresh token each, then it is
// "held".
func TestSplitVoteRetries(t *testing.T) {
	inBubble(t, 4, func(t *testing.T, s *sim) {
		a := s.quorum()
		s.each(2, 4, func(m *fake.Master) {
			m.Set(func() { m.SetLock("lock:job", "another", 0, "", time.Now().Add(time.Hour)) })
		})
		start := time.Now()
		_, err := a.Acquire(t.Context(), Request{Key: "job", TTL: 10 * time.Second})
		took := time.Since(start)
		if !errors.Is(err, ErrHeld) {
			t.Errorf("%v, want ErrHeld", err)
		}
		// 1-3 ms, 2-6, 4-12, 8-24.
		if took < 15*time.Millisecond || took > 45*time.Millisecond {
			t.Errorf("took %v, want 15ms to 45ms", took)
		}
		synctest.Wait()
		if n := s.masters[0].Ran("acquire"); n != 5 {
			t.Errorf("%d attempts, want 5", n)
		}
		if n, _ := s.masters[0].Holds("", ""); n != 0 {
			t.Errorf("%d keys left where it was granted", n)
		}
	})
}

// B6: validity counts from the attempt that granted, not from the first.
func TestValidityCountsFromGrantingAttempt(t *testing.T) {
	inBubble(t, 4, func(t *testing.T, s *sim) {
		q := s.quorum()
		s.each(2, 4, func(m *fake.Master) {
			m.Set(func() { m.SetLock("lock:job", "another", 0, "", time.Now().Add(2*time.Millisecond)) })
		})
		start := time.Now()
		lease := mustAcquire(t, q, "job", 10*time.Second)
		if took := time.Since(start); took == 0 {
			t.Fatal("the vote was not split")
		}
		if want := 10*time.Second - 102*time.Millisecond; lease.Validity != want {
			t.Errorf("validity %v, want %v", lease.Validity, want)
		}
	})
}

// The lanes of a majority have filled since the intake looked. The acquire goes out all the same,
// and not on more lanes than it needs: healthy masters make no NoQuorumError.
func TestAcquireOnFullLanes(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, s *sim) {
		q := s.quorum()
		for _, l := range q.fleet.lanes[1:] {
			l.SetRoom(0)
		}
		lease := mustAcquire(t, q, "job", 10*time.Second)
		synctest.Wait()
		for i, m := range s.masters {
			if n, want := m.Ran("acquire"), min(1, max(0, 3-i)); n != want {
				t.Errorf("master %d carried out %d acquires, want %d", i+1, n, want)
			}
		}
		mustRelease(t, q, "job", lease.Token)
		synctest.Wait()
		s.noKeys("after the release")
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
						m.Set(func() {
							m.SetLock("lock:job", "x", 0, "", time.Now().Add(left*time.Second))
						})
					}
				}
				free := make(chan time.Duration, 1)
				a := newAttempt(&acquisition{q: q, r: Request{Key: "lock:job", TTL: time.Second}, state: stateFailed})
				a.acq.mu.Lock()
				a.askLocked()
				a.acq.mu.Unlock()
				q.Flush()
				synctest.Wait()
				a.acq.mu.Lock()
				free <- a.freeIn()
				a.releaseLocked()
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
}

// Keys without an expiry never free the lock.
func TestHeldErrorNeverFree(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, s *sim) {
		q := s.quorum()
		s.each(0, 3, func(m *fake.Master) {
			m.Set(func() { m.SetLock("lock:job", "x", 0, "", time.Time{}) })
		})
		_, err := q.Acquire(t.Context(), Request{Key: "job", TTL: time.Second})
		if held, ok := errors.AsType[*HeldError](err); !ok || held.Free >= 0 {
			t.Errorf("%v, %+v, want never", err, held)
		}
	})
}
