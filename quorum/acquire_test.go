package quorum

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/quorum/internal/fake"
	"lockproxy/quorum/internal/wire"
)

// inBubble runs f in a bubble of its own.
func inBubble(t *testing.T, n int, f func(t *testing.T, s *sim)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, newSim(t, n)) })
}

func TestAcquireAndRelease(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, s *sim) {
		q := s.quorum()
		lease := mustAcquire(t, q, "job", 10*time.Second)
		if want := 10*time.Second - 102*time.Millisecond; lease.Validity != want {
			t.Errorf("validity %v, want %v", lease.Validity, want)
		}
		if _, err := q.Acquire(t.Context(), Request{Key: "job", TTL: time.Second}); !errors.Is(err, ErrHeld) {
			t.Errorf("second Acquire: %v, want ErrHeld", err)
		}
		mustRelease(t, q, "job", lease.Token)
		if ok, err := q.Release(t.Context(), []string{"job"}, lease.Token, 0); ok || err != nil {
			t.Errorf("second Release = %v, %v, want false", ok, err)
		}
		synctest.Wait()
		s.noKeys("after the release")
		next := mustAcquire(t, q, "job", time.Second)
		if next.Token.String() <= lease.Token.String() || next.Token.Secret == lease.Token.Secret {
			t.Errorf("token %v does not follow %v", next.Token, lease.Token)
		}
	})
}

// B11: a hung minority costs no time, a hung majority exactly the master timeout; in neither case
// does the reply wait for releases.
func TestAcquireWithHungMasters(t *testing.T) {
	for _, c := range []struct {
		name string
		hung int
		took time.Duration
		err  error
	}{
		{"minority", 2, 0, nil},
		{"majority", 3, 50 * time.Millisecond, ErrNoQuorum},
		{"all", 5, 50 * time.Millisecond, ErrNoQuorum},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, 5, func(t *testing.T, s *sim) {
				q := s.quorum()
				s.each(5-c.hung, 5, (*fake.Master).Pause)
				start := time.Now()
				lease, err := q.Acquire(t.Context(), Request{Key: "job", TTL: 10 * time.Second})
				if took := time.Since(start); !errors.Is(err, c.err) || took != c.took {
					t.Fatalf("%v after %v, want %v after %v", err, took, c.err, c.took)
				}
				if err == nil {
					mustRelease(t, q, "job", lease.Token)
				} else if want := "gave no answer in 50ms"; !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not say %q", err, want)
				}
				// B1, B2: the SETs land now, each with its release behind it.
				s.each(0, 5, (*fake.Master).Resume)
				synctest.Wait()
				s.noKeys("after waking up")
				if n := s.masters[4].Ran("acquire"); n != 1 {
					t.Errorf("the hung master carried out %d acquires, want the late one", n)
				}
			})
		})
	}
}

// Where this process did not get the processor the error says so, beside the masters that seem
// silent; not of a lateness that is over, nor where masters are down.
func TestNoQuorumSaysLate(t *testing.T) {
	const says = "0 of 3 masters can vote, 2 needed, and this proxy itself was late by 80ms (is it short of processor time?): " +
		"10.0.0.1:6379 gave no answer in 250ms;"
	inBubble(t, 3, func(t *testing.T, s *sim) {
		q := s.quorum()
		s.each(0, 3, (*fake.Master).Pause)
		acquire := func(late time.Duration) error {
			done := make(chan error, 1)
			go func() {
				_, err := q.Acquire(t.Context(), Request{Key: "job", TTL: 10 * time.Second})
				done <- err
			}()
			synctest.Wait()
			if late > 0 { // as if the timer had been
				q.deadlines.timer.Stop()
				time.Sleep(50*time.Millisecond + late)
				q.deadlines.run()
			}
			return <-done
		}
		if err := acquire(80 * time.Millisecond); !strings.HasPrefix(err.Error(), says) {
			t.Errorf("late: %q, want %q", err, says)
		}
		if err := acquire(minLateness - 1); strings.Contains(err.Error(), "this proxy") {
			t.Errorf("in time: %q", err)
		}
		if err := acquire(0); strings.Contains(err.Error(), "this proxy") {
			t.Errorf("later: %q", err)
		}
	})
}

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

func TestCertainFailureIsEarly(t *testing.T) {
	t.Run("held although two hang", func(t *testing.T) {
		inBubble(t, 5, func(t *testing.T, s *sim) {
			q, other := s.quorum(), s.quorum()
			mustAcquire(t, other, "job", time.Minute)
			synctest.Wait()
			s.each(3, 5, (*fake.Master).Pause)
			start := time.Now()
			if _, err := q.Acquire(t.Context(), Request{Key: "job", TTL: time.Second}); !errors.Is(err, ErrHeld) || time.Since(start) != 0 {
				t.Errorf("%v after %v, want ErrHeld at once", err, time.Since(start))
			}
		})
	})
	t.Run("majority down", func(t *testing.T) {
		inBubble(t, 5, func(t *testing.T, s *sim) {
			s.each(2, 5, (*fake.Master).Stop)
			q := s.quorum()
			start := time.Now()
			_, err := q.Acquire(t.Context(), Request{Key: "job", TTL: time.Second})
			if !errors.Is(err, ErrNoQuorum) || time.Since(start) != 0 {
				t.Fatalf("%v after %v, want ErrNoQuorum at once", err, time.Since(start))
			}
			none, _ := errors.AsType[*NoQuorumError](err)
			want := "2 of 5 masters can vote, 3 needed: 10.0.0.3:6379 refused the connection; " +
				"10.0.0.4:6379 refused the connection; 10.0.0.5:6379 refused the connection"
			if got := none.Text(true); got != want {
				t.Errorf("text %q, want %q", got, want)
			}
			if got := none.Text(false); strings.Contains(got, "10.0.0") || !strings.Contains(got, "master 3 refused the connection; master 4") {
				t.Errorf("text without names: %q", got)
			}
			synctest.Wait()
			s.noKeys("after the failure")
		})
	})
}

// The reply of a failed LOCK does not wait for its releases, however long they take.
func TestReplyDoesNotWaitForReleases(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, s *sim) {
		s.each(1, 3, (*fake.Master).Stop)
		q := s.quorum()
		delayed(s.masters[0], "release", time.Second)
		start := time.Now()
		if _, err := q.Acquire(t.Context(), Request{Key: "job", TTL: 10 * time.Second}); !errors.Is(err, ErrNoQuorum) || time.Since(start) != 0 {
			t.Errorf("%v after %v, want ErrNoQuorum at once", err, time.Since(start))
		}
		time.Sleep(2 * time.Second)
		s.noKeys("after the release")
	})
}

// B4, B5: a grant that comes when nothing is left of the ttl is no grant, and leaves nothing.
func TestLate(t *testing.T) {
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

// B15: a ttl out of range reaches no master.
func TestInvalidTTL(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, s *sim) {
		q := s.quorum()
		for _, ttl := range []time.Duration{0, -time.Second, 999 * time.Microsecond, time.Minute + time.Millisecond} {
			if _, err := q.Acquire(t.Context(), Request{Key: "job", TTL: ttl}); !errors.Is(err, ErrInvalidTTL) {
				t.Errorf("ttl %v: %v, want ErrInvalidTTL", ttl, err)
			}
		}
		if n := s.masters[0].Ran("acquire"); n != 0 {
			t.Errorf("%d acquires reached a master", n)
		}
	})
}

// B3: a caller that gives up leaves nothing behind; the releases do not hang on its context.
func TestCallerGivesUp(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, s *sim) {
		q := s.quorum()
		s.each(1, 3, (*fake.Master).Pause)
		cause := errors.New("client hung up")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(5*time.Millisecond, func() { cancel(cause) })
		start := time.Now()
		if _, err := q.Acquire(ctx, Request{Key: "job", TTL: 10 * time.Second}); !errors.Is(err, cause) || time.Since(start) != 5*time.Millisecond {
			t.Errorf("%v after %v, want the cause after 5ms", err, time.Since(start))
		}
		if _, err := q.Acquire(ctx, Request{Key: "job", TTL: 10 * time.Second}); !errors.Is(err, cause) {
			t.Errorf("with a cancelled context: %v, want the cause", err)
		}
		s.each(1, 3, (*fake.Master).Resume)
		synctest.Wait()
		s.noKeys("after the caller left")
		if n := s.masters[1].Ran("acquire"); n != 1 {
			t.Errorf("%d acquires carried out, want 1: nothing is asked for a caller who is gone", n)
		}
	})
}

// A caller who gives up just when the lease has been made gets it: nobody else would release it.
func TestCallerGivesUpAsItIsGranted(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, s *sim) {
		q := s.quorum()
		got := false
		a := q.acquire(Request{Key: "job", TTL: 10 * time.Second}, func(_ Lease, err error) { got = err == nil })
		a.mu.Lock()
		var end ending
		for i := range 2 { // what two masters are about to say
			end = a.attempt.takeLocked(i, wire.Acquire, answer{state: answerYes, fence: 1}, false)
		}
		a.mu.Unlock()
		left := a.giveUp()
		a.follow(end)
		if left || !got {
			t.Errorf("gave up: %v, got the lease: %v", left, got)
		}
	})
}

// B7: two proxies that split the vote, as each is nearer to its half of the masters, part by
// random delays, far within the ttl, and exactly one wins.
func TestSplitVoteConverges(t *testing.T) {
	for range 20 {
		inBubble(t, 4, func(t *testing.T, s *sim) {
			quorums := []*Quorum{s.quorum(s.nearTo(0, 2)), s.quorum(s.nearTo(2, 4))}
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
			synctest.Wait()
			if n := s.masters[0].Ran("acquire"); n <= 2 {
				t.Errorf("%d acquires: the vote was not split", n)
			}
		})
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

// What the caller may count on begins when he has it, also where he wakes up late. If nothing is
// left then, nothing is held.
func TestHandedOverLate(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, s *sim) {
		q := s.quorum()
		for _, late := range []time.Duration{0, 3 * time.Second, 9 * time.Second, 9900 * time.Millisecond} {
			leases := make(chan Lease, 1)
			a := q.acquire(Request{Key: "a", Keys: []string{"b"}, TTL: 10 * time.Second}, func(lease Lease, _ error) { leases <- lease })
			q.Flush()
			lease := <-leases
			want := lease.Validity - late
			time.Sleep(late)
			lease, err := a.handOver(lease, nil)
			if want <= 0 {
				synctest.Wait()
				s.noKeys("after a lease that came too late")
				if !errors.Is(err, ErrLate) {
					t.Errorf("late by %v: %v", late, err)
				}
				continue
			}
			if lease.Validity != want || err != nil {
				t.Errorf("late by %v: validity %v, want %v; %v", late, lease.Validity, want, err)
			}
			if held, err := q.Release(t.Context(), []string{"a", "b"}, lease.Token, 0); !held {
				t.Errorf("late by %v: %v", late, err)
			}
		}
	})
}

// The lanes of a majority have filled since the intake looked. The acquire goes out all the same,
// and not on more lanes than it needs: healthy masters make no NoQuorumError.
func TestAcquireOnFullLanes(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, s *sim) {
		q := s.quorum()
		for _, l := range q.lanes[1:] {
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
