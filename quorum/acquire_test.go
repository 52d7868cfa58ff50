package quorum

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/quorum/internal/fake"
	"lockproxy/stat"
)

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
				// B1, B2: the SETs land now, each followed by its release.
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

// If this process was late for want of the processor the error says so, beside the masters that
// seem silent. It says so neither of an earlier lateness nor if masters are down.
func TestNoQuorumSaysLate(t *testing.T) {
	const says = "0 of 3 masters can vote, 2 needed, and this proxy itself was late by 80ms " +
		"(is it short of processor time?): 10.0.0.1:6379 gave no answer in 250ms;"
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
				q.fleet.deadlines.timer.Stop()
				time.Sleep(50*time.Millisecond + late)
				q.fleet.deadlines.run()
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

func TestCertainFailureIsEarly(t *testing.T) {
	t.Run("held although two hang", func(t *testing.T) {
		inBubble(t, 5, func(t *testing.T, s *sim) {
			q, other := s.quorum(), s.quorum()
			mustAcquire(t, other, "job", time.Minute)
			synctest.Wait()
			s.each(3, 5, (*fake.Master).Pause)
			start := time.Now()
			if _, err := q.Acquire(t.Context(), Request{Key: "job", TTL: time.Second}); !errors.Is(err, ErrHeld) ||
				time.Since(start) != 0 {
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
			if got := none.Text(false); strings.Contains(got, "10.0.0") ||
				!strings.Contains(got, "master 3 refused the connection; master 4") {
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
		_, err := q.Acquire(t.Context(), Request{Key: "job", TTL: 10 * time.Second})
		if !errors.Is(err, ErrNoQuorum) || time.Since(start) != 0 {
			t.Errorf("%v after %v, want ErrNoQuorum at once", err, time.Since(start))
		}
		time.Sleep(2 * time.Second)
		s.noKeys("after the release")
	})
}

// B15: a ttl out of range reaches no master.
func TestInvalidTTL(t *testing.T) {
	for name, ttl := range map[string]time.Duration{
		"zero": 0, "negative": -time.Second, "less than a millisecond": 999 * time.Microsecond,
		"above max-ttl": time.Minute + time.Millisecond,
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, s *sim) {
				_, err := s.quorum().Acquire(t.Context(), Request{Key: "job", TTL: ttl})
				if !errors.Is(err, ErrInvalidTTL) {
					t.Errorf("%v, want ErrInvalidTTL", err)
				}
				if n := s.masters[0].Ran("acquire"); n != 0 {
					t.Errorf("%d acquires reached a master", n)
				}
			})
		})
	}
}

// B3: a caller that gives up leaves no key; the releases do not hang on its context.
func TestCallerGivesUp(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, s *sim) {
		q := s.quorum()
		s.each(1, 3, (*fake.Master).Pause)
		cause := errors.New("client hung up")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(5*time.Millisecond, func() { cancel(cause) })
		start := time.Now()
		if _, err := q.Acquire(ctx, Request{Key: "job", TTL: 10 * time.Second}); !errors.Is(err, cause) ||
			time.Since(start) != 5*time.Millisecond {
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

// A caller that gives up just when the lease has been made gets it: no one else would release it.
func TestCallerGivesUpAsItIsGranted(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, s *sim) {
		q := s.quorum()
		got := false
		a := q.acquire(Request{Key: "job", TTL: 10 * time.Second}, func(_ Lease, err error) { got = err == nil })
		a.mu.Lock()
		var then effects
		for i := range 2 { // the answers that two masters are about to send
			then = a.handleLocked(&event{kind: eventVote, attempt: a.attempt, lane: i,
				said: answer{state: answerYes, fence: 1}})
		}
		a.mu.Unlock()
		left := a.handle(&event{kind: eventGiveUp})
		a.perform(&then)
		if left || !got {
			t.Errorf("gave up: %v, got the lease: %v", left, got)
		}
	})
}

// The validity that a caller gets counts from the moment it wakes up. A caller for whom none is
// left holds no key.
func TestHandedOverLate(t *testing.T) {
	for _, late := range []time.Duration{0, 3 * time.Second, 9 * time.Second, 9900 * time.Millisecond} {
		t.Run(late.String(), func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, s *sim) {
				q := s.quorum()
				leases := make(chan Lease, 1)
				a := q.acquire(Request{Key: "a", Keys: []string{"b"}, TTL: 10 * time.Second},
					func(lease Lease, _ error) { leases <- lease })
				q.Flush()
				lease := <-leases
				want := lease.Validity - late
				time.Sleep(late)
				lease, err := a.handOver(lease, nil)
				if want <= 0 {
					synctest.Wait()
					s.noKeys("after a lease that came too late")
					if !errors.Is(err, ErrLate) {
						t.Errorf("%v, want ErrLate", err)
					}
					return
				}
				if lease.Validity != want || err != nil {
					t.Errorf("validity %v, want %v; %v", lease.Validity, want, err)
				}
				if held, err := q.Release(t.Context(), []string{"a", "b"}, lease.Token, 0); !held {
					t.Error(err)
				}
			})
		})
	}
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
