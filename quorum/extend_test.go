package quorum

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/quorum/internal/clock"
	"lockproxy/quorum/internal/fake"
	"lockproxy/quorum/internal/wire"
)

func TestExtendNeedsAMajority(t *testing.T) {
	for _, c := range []struct {
		name string
		fail func(s *sim)
		err  error
		took time.Duration
	}{
		{"held by all", func(*sim) {}, nil, 0},
		{"two masters hang", func(s *sim) { s.each(3, 5, (*fake.Master).Pause) }, nil, 0},
		{"two masters down", func(s *sim) { s.each(3, 5, (*fake.Master).Stop) }, nil, 0},
		{"three hang", func(s *sim) { s.each(2, 5, (*fake.Master).Pause) }, ErrNoQuorum, 50 * time.Millisecond},
		{"three down", func(s *sim) { s.each(2, 5, (*fake.Master).Stop) }, ErrNoQuorum, 0},
		{"lost on three", func(s *sim) { s.each(0, 3, empty) }, ErrLost, 0},
		{"lost on three, two hang", func(s *sim) { s.each(0, 3, empty); s.each(3, 5, (*fake.Master).Pause) }, ErrLost,
			0},
		{"lost on two", func(s *sim) { s.each(0, 2, empty) }, nil, 0},
		{"lost on two, one hangs", func(s *sim) { s.each(0, 2, empty); s.each(4, 5, (*fake.Master).Pause) },
			ErrNoQuorum, 50 * time.Millisecond},
		{"lost on two, one down", func(s *sim) { s.each(0, 2, empty); s.each(4, 5, (*fake.Master).Stop) }, ErrNoQuorum,
			0},
		{"lost on all", func(s *sim) { s.each(0, 5, empty) }, ErrLost, 0},
		{"errors", func(s *sim) {
			s.each(0, 3, func(m *fake.Master) { answering(m, "extend", "-LOADING Redis is loading\r\n") })
		}, ErrNoQuorum, 0},
		{"scripts lost", func(s *sim) { s.each(0, 5, (*fake.Master).FlushScripts) }, nil, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, 5, func(t *testing.T, s *sim) {
				q := s.quorum()
				lease := mustAcquire(t, q, "job", 5*time.Second)
				synctest.Wait()
				c.fail(s)
				synctest.Wait()
				start := time.Now()
				left, err := q.Extend(t.Context(), []string{"job"}, lease.Token, 20*time.Second, false)
				if took := time.Since(start); !errors.Is(err, c.err) || took != c.took {
					t.Fatalf("%v after %v, want %v after %v", err, took, c.err, c.took)
				}
				want := 20*time.Second - 202*time.Millisecond
				if err == nil && left != want || err != nil && left != 0 {
					t.Errorf("validity %v, want %v", left, want)
				}
				wantVerdictFollowed(t, s, q, lease, start, err)
			})
		})
	}
}

// wantVerdictFollowed fails unless masters that are back follow the verdict of an extension of job
// to 20s, which began at start.
func wantVerdictFollowed(t *testing.T, s *sim, q *Quorum, lease Lease, start time.Time, verdict error) {
	t.Helper()
	s.each(0, 5, func(m *fake.Master) { answering(m, "", ""); m.Resume(); m.Start() })
	time.Sleep(3 * time.Second)
	switch {
	case errors.Is(verdict, ErrLost):
		s.noKeys("after ErrLost")
	case verdict == nil:
		for i, m := range s.masters {
			v, ok := at(m, "lock:job")
			if life := v.End.Sub(start); !ok || v.Secret != lease.Token.Secret || v.Fence != 1 ||
				life < 19*time.Second || life > 20*time.Second {
				t.Errorf("master %d holds %+v, %v, for %v", i+1, v, ok, life)
			}
		}
		mustRelease(t, q, "job", lease.Token)
		synctest.Wait()
		s.noKeys("after the release")
	}
}

// B8: an extension never revives a lock that ran out, whether another took it since or not, and
// leaves no key with the old token.
func TestExtendNeverRevives(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, s *sim) {
		q := s.quorum()
		old := mustAcquire(t, q, "job", time.Second)
		synctest.Wait()
		// One master keeps it longer than it should.
		s.masters[0].Set(func() {
			v, _ := s.masters[0].Lock("lock:job")
			s.masters[0].SetEnd("lock:job", v.End.Add(time.Minute))
		})
		time.Sleep(time.Second + time.Millisecond)
		next := mustAcquire(t, q, "job", 10*time.Second)
		if _, err := q.Extend(t.Context(), []string{"job"}, old.Token, 20*time.Second,
			false); !errors.Is(err, ErrLost) {
			t.Errorf("%v, want ErrLost", err)
		}
		time.Sleep(fadeTime + time.Second)
		for i, m := range s.masters {
			v, ok := at(m, "lock:job")
			if ok && v.Secret == old.Token.Secret {
				t.Errorf("master %d still holds the old token", i+1)
			}
			if i > 0 && (v.Secret != next.Token.Secret || time.Until(v.End) > 9*time.Second) {
				t.Errorf("master %d holds %+v, want the new holder's, untouched", i+1, v)
			}
		}
		mustRelease(t, q, "job", next.Token)
		if _, err := q.Extend(t.Context(), []string{"job"}, next.Token, 20*time.Second,
			false); !errors.Is(err, ErrLost) {
			t.Errorf("after the release: %v, want ErrLost", err)
		}
		time.Sleep(fadeTime + time.Second)
		s.noKeys("after extending what was released")
		if n := s.masters[0].Ran("topup"); n != 0 {
			t.Errorf("%d fills of a lost lock", n)
		}
	})
}

// B9, B10: masters that lost the key get it back, with the fence and owner that the others hold;
// the number that the caller names is no proof and reaches no counter.
func TestExtendFills(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, s *sim) {
		q := s.quorum()
		setCounter(s.masters[0], "lock:job", 6)
		s.each(3, 5, func(m *fake.Master) { delayed(m, "acquire", time.Millisecond) }) // the others make the lease
		lease, err := q.Acquire(t.Context(), Request{Key: "job", TTL: 10 * time.Second, Owner: "me"})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Millisecond)
		s.each(3, 5, empty)
		forged := Token{Fence: 9999999999999999, Secret: lease.Token.Secret}
		if _, err := q.Extend(t.Context(), []string{"job"}, forged, 10*time.Second, false); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		for i, m := range s.masters {
			v, ok := at(m, "lock:job")
			if !ok || v.Secret != lease.Token.Secret || v.Fence != lease.Token.Fence || v.Owner != "me" ||
				counter(m, "lock:job") > 7 {
				t.Errorf("master %d holds %+v, counted %d, want fence 7 of me", i+1, v, counter(m, "lock:job"))
			}
		}
		time.Sleep(checkAfter + time.Second)
		if n := s.masters[0].Ran("check"); n != 1 {
			t.Errorf("%d checks after the fills, want 1", n)
		}
		// A master that was set by another is left alone.
		s.masters[4].Set(func() {
			s.masters[4].SetLock("lock:job", "another", 0, "", time.Now().Add(time.Hour))
		})
		if _, err := q.Extend(t.Context(), []string{"job"}, lease.Token, 10*time.Second, false); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if v, _ := at(s.masters[4], "lock:job"); !strings.HasPrefix(v.Secret, "another") {
			t.Errorf("overwritten by %+v", v)
		}
	})
}

// An expiry is raised, never lowered.
func TestExtendNeverLowers(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, s *sim) {
		q := s.quorum()
		start := time.Now()
		lease := mustAcquire(t, q, "job", time.Minute)
		left, err := q.Extend(t.Context(), []string{"job"}, lease.Token, time.Second, false)
		if err != nil || left != time.Second-12*time.Millisecond {
			t.Errorf("%v, %v", left, err)
		}
		synctest.Wait()
		for _, m := range s.masters {
			if v, _ := at(m, "lock:job"); v.End.Sub(start) != time.Minute {
				t.Errorf("lives for %v, want 1m", v.End.Sub(start))
			}
		}
	})
}

// Masters have until the deadline of a caller who can wait, and the time that they take is taken
// off the validity.
func TestExtendUntilDeadline(t *testing.T) {
	for _, c := range []struct {
		name     string
		deadline time.Duration // 0: none
		err      error
		took     time.Duration
	}{
		{"without a deadline", 0, ErrNoQuorum, 50 * time.Millisecond},
		{"before the answers", 10 * time.Millisecond, context.DeadlineExceeded, 10 * time.Millisecond},
		{"after the answers", 100 * time.Millisecond, nil, 80 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, s *sim) {
				q := s.quorum()
				lease := mustAcquire(t, q, "job", 20*time.Second)
				s.each(0, 3, func(m *fake.Master) { delayed(m, "extend", 80*time.Millisecond) })
				ctx, start := t.Context(), time.Now()
				if c.deadline > 0 {
					within, cancel := context.WithTimeout(ctx, c.deadline)
					defer cancel()
					ctx = within
				}
				left, err := q.Extend(ctx, []string{"job"}, lease.Token, 20*time.Second, false)
				if took := time.Since(start); !errors.Is(err, c.err) || took != c.took {
					t.Errorf("%v after %v, want %v after %v", err, took, c.err, c.took)
				}
				if want := 20*time.Second - 282*time.Millisecond; err == nil && left != want {
					t.Errorf("validity %v, want %v", left, want)
				}
			})
		})
	}
}

// A caller who has left takes no key away: it may have released one of them since.
func TestExtendOfSomeLeft(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, s *sim) {
		q := s.quorum()
		lease, err := q.Acquire(t.Context(), Request{Key: "a", Keys: []string{"b"}, TTL: 20 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		mustRelease(t, q, "b", lease.Token)
		for i := range s.masters {
			delayed(s.masters[i], "extend", time.Millisecond) // until Extend waits
		}
		ctx, cancel := context.WithCancel(t.Context())
		if _, err := q.Extend(leaving{ctx, cancel}, []string{"a", "b"}, lease.Token, 20*time.Second,
			false); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		time.Sleep(10 * time.Second)
		if info, err := q.Inspect(t.Context(), "a"); err != nil || info.Held != 3 {
			t.Errorf("%+v, %v, want it held by all", info, err)
		}
	})
}

// leaving is a context that ends when the answers are in: both come at once.
type leaving struct {
	context.Context
	cancel func()
}

func (l leaving) Done() <-chan struct{} {
	l.cancel()
	return nil
}

// A master that missed the SET is still topped up for the extended time, and one that was away
// with the key is raised.
func TestExtendRaisesPendingTopUp(t *testing.T) {
	for _, c := range []struct {
		name string
		away func(*fake.Master)
		late bool // away only after the SET
	}{
		{"missed the SET", (*fake.Master).Stop, false},
		{"missed the extension", (*fake.Master).Stop, true},
		{"cut off", func(m *fake.Master) { m.Pause(); m.Stop(); m.Resume() }, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, s *sim) {
				q := s.quorum()
				m := s.masters[2]
				lease := acquireBeside(t, q, func() { c.away(m) }, c.late)
				start := time.Now()
				if _, err := q.Extend(t.Context(), []string{"job"}, lease.Token, 30*time.Second, false); err != nil {
					t.Fatal(err)
				}
				wait := time.Second
				if !c.late {
					wait = 8 * time.Second // the top-up for the first ttl is not pending any more
				}
				time.Sleep(wait)
				m.Start()
				time.Sleep(3 * time.Second)
				if v, ok := at(m, "lock:job"); !ok || v.Secret != lease.Token.Secret ||
					v.End.Sub(start) < 29*time.Second || v.End.Sub(start) > 30*time.Second {
					t.Errorf("holds %+v, %v for %v, want the rest of 30s", v, ok, v.End.Sub(start))
				}
				mustRelease(t, q, "job", lease.Token)
				synctest.Wait()
				s.noKeys("after the release")
			})
		})
	}
}

// acquireBeside acquires job for 5s, and calls away before that, or after it if late is set.
func acquireBeside(t *testing.T, q *Quorum, away func(), late bool) Lease {
	t.Helper()
	if !late {
		away()
		synctest.Wait()
	}
	lease := mustAcquire(t, q, "job", 5*time.Second)
	synctest.Wait()
	if late {
		away()
		synctest.Wait()
	}
	return lease
}

// A master that says only after the reply that it lost the key is filled too. A fill that lands
// after the lock was released through another proxy is found by the check.
func TestExtendFillsLate(t *testing.T) {
	for name, released := range map[string]bool{"held": false, "released": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, s *sim) {
				q, other := s.quorum(), s.quorumOf(2)
				lease := mustAcquire(t, q, "job", 10*time.Second)
				synctest.Wait()
				m := s.masters[2]
				empty(m)
				m.Pause()
				if _, err := q.Extend(t.Context(), []string{"job"}, lease.Token, 10*time.Second, false); err != nil {
					t.Fatal(err)
				}
				if released {
					mustRelease(t, other, "job", lease.Token)
				}
				m.Resume()
				synctest.Wait()
				if _, ours := m.Holds("lock:job", lease.Token.Secret); !ours {
					t.Error("not filled")
				}
				time.Sleep(checkAfter + fadeTime + time.Second)
				if _, ours := m.Holds("lock:job", lease.Token.Secret); ours == released {
					t.Errorf("the master has the key of the late fill: %v", ours)
				}
			})
		})
	}
}

// B25: extensions and releases go by the token of one acquisition. The token of an earlier one
// does not reach the lock that the same client holds now.
func TestEarlierTokenDoesNothing(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, s *sim) {
		q := s.quorum()
		first := mustAcquire(t, q, "job", 10*time.Second)
		mustRelease(t, q, "job", first.Token)
		second := mustAcquire(t, q, "job", 10*time.Second)
		if ok, err := q.Release(t.Context(), []string{"job"}, first.Token, 0); ok || err != nil {
			t.Errorf("Release = %v, %v, want false", ok, err)
		}
		q.Abandon("job", first.Token)
		if _, err := q.Extend(t.Context(), []string{"job"}, first.Token, time.Minute,
			false); !errors.Is(err, ErrLost) {
			t.Errorf("%v, want ErrLost", err)
		}
		time.Sleep(fadeTime + time.Second)
		for i, m := range s.masters {
			if v, ok := at(m, "lock:job"); !ok || v.Secret != second.Token.Secret ||
				time.Until(v.End) > 9*time.Second {
				t.Errorf("master %d holds %+v, %v", i+1, v, ok)
			}
		}
	})
}

func TestExtendEnds(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, s *sim) {
		q := s.quorum()
		lease := mustAcquire(t, q, "job", 10*time.Second)
		synctest.Wait()
		if _, err := q.Extend(t.Context(), []string{"job"}, lease.Token, time.Minute+time.Millisecond,
			false); !errors.Is(err, ErrInvalidTTL) {
			t.Errorf("%v, want ErrInvalidTTL", err)
		}
		s.each(0, 3, func(m *fake.Master) { delayed(m, "extend", time.Millisecond) })
		if _, err := q.Extend(t.Context(), []string{"job"}, lease.Token, 3*time.Millisecond,
			false); !errors.Is(err, ErrLate) {
			t.Errorf("%v, want ErrLate", err)
		}
		for _, m := range s.masters {
			if v, ok := at(m, "lock:job"); !ok || v.Secret != lease.Token.Secret {
				t.Error("a late extension took the lock away")
			}
		}
		s.each(0, 3, (*fake.Master).Pause)
		cause := errors.New("client hung up")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Millisecond, func() { cancel(cause) })
		if _, err := q.Extend(ctx, []string{"job"}, lease.Token, 10*time.Second, false); !errors.Is(err, cause) {
			t.Errorf("%v, want the cause", err)
		}
		// As for an attempt, the time follows the ttl.
		start := time.Now()
		_, err := q.Extend(t.Context(), []string{"job"}, lease.Token, 100*time.Millisecond, false)
		if none, ok := errors.AsType[*NoQuorumError](err); !ok || time.Since(start) != 25*time.Millisecond ||
			len(none.Masters) != 3 || none.Masters[0].Err.Error() != "gave no answer in 25ms" {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
}

// An extension of several keys lives as long as the key that was asked for first: the goroutine
// may have been stopped before it asked for the next one.
func TestExtendCountsFromItsStart(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, s *sim) {
		q := s.quorum()
		lease := mustAcquire(t, q, "job", 5*time.Second)
		since := clock.Start()
		time.Sleep(time.Second)
		left, err := AwaitValidity(t.Context(), q.Flush, func(done func(time.Duration, error)) {
			q.extend(wire.Extend, "job", lease.Token, 20*time.Second, 0, since, done)
		})
		if want := 20*time.Second - 202*time.Millisecond - time.Second; err != nil || left != want {
			t.Errorf("validity %v, %v, want %v", left, err, want)
		}
	})
}
