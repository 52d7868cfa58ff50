package quorum

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/quorum/internal/fake"
)

// Tokens of a key rise as strings, for any minority that comes and goes and any counters at the
// start.
func TestFenceRises(t *testing.T) {
	for _, n := range []int{3, 5} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			for seed := range uint64(8) {
				inBubble(t, n, func(t *testing.T, s *sim) {
					t.Logf("seed %d", seed)
					random := rand.New(rand.NewPCG(seed, 1))
					for _, m := range s.masters {
						setCounter(m, "lock:job", random.Uint64N(5))
					}
					q := s.quorum()
					last := ""
					for range 30 {
						last = tokenAfter(t, s, q, last, random.Perm(n)[:random.IntN(n/2+1)])
					}
				})
			}
		})
	}
}

// tokenAfter acquires and releases job while some masters are paused. It returns the token, which
// must follow last.
func tokenAfter(t *testing.T, s *sim, q *Quorum, last string, paused []int) string {
	t.Helper()
	for _, i := range paused {
		s.masters[i].Pause()
	}
	lease := mustAcquire(t, q, "job", 10*time.Second)
	token := lease.Token.String()
	if token <= last {
		t.Fatalf("token %s after %s", token[:16], last[:16])
	}
	mustRelease(t, q, "job", lease.Token)
	for _, i := range paused {
		s.masters[i].Resume()
	}
	synctest.Wait()
	return token
}

// Counters that agree need one round. Counters that differ need a second one, which raises the
// lower ones.
func TestSecondRound(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, s *sim) {
		q := s.quorum()
		lease := mustAcquire(t, q, "job", time.Second)
		mustRelease(t, q, "job", lease.Token)
		synctest.Wait()
		for i, m := range s.masters {
			if n := m.Ran("raise"); n != 0 || lease.Token.Fence != 1 {
				t.Errorf("master %d: %d raises, fence %d", i+1, n, lease.Token.Fence)
			}
			setCounter(m, "lock:job", uint64(10*i))
		}
		s.masters[2].Pause()
		lease = mustAcquire(t, q, "job", 10*time.Second)
		if lease.Token.Fence != 11 {
			t.Errorf("fence %d, want 11", lease.Token.Fence)
		}
		if a, b := counter(s.masters[0], "lock:job"), counter(s.masters[1], "lock:job"); a != 11 || b != 11 {
			t.Errorf("counters %d, %d, want 11", a, b)
		}
		// The third, late, counted 21: its counter is not lowered, and its value gets the number
		// of the token.
		s.masters[2].Resume()
		synctest.Wait()
		m := s.masters[2]
		v, _ := at(m, "lock:job")
		if counter(m, "lock:job") != 21 || v.Fence != 11 {
			t.Errorf("counter %d, fence in the value %d, want 21 and 11", counter(m, "lock:job"), v.Fence)
		}
	})
}

// A second round that a majority of all does not confirm in time is ErrFence, and leaves no keys.
// A majority of the masters that granted is not enough.
func TestSecondRoundFails(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, s *sim) {
		q := s.quorum()
		for i, m := range s.masters {
			setCounter(m, "lock:job", uint64(10*i))
		}
		s.each(0, 1, func(m *fake.Master) { delayed(m, "raise", time.Second) })
		s.each(3, 5, (*fake.Master).Pause)
		start := time.Now()
		_, err := q.Acquire(t.Context(), Request{Key: "job", TTL: 10 * time.Second})
		if took := time.Since(start); !errors.Is(err, ErrFence) || took != 50*time.Millisecond {
			t.Errorf("%v after %v, want ErrFence after 50ms, waiting for those who may still join", err, took)
		}
		s.each(3, 5, (*fake.Master).Resume)
		time.Sleep(2 * time.Second)
		s.noKeys("after ErrFence")
	})
}

// The deadline of the first round may have begun to run when the second one begins. It does not
// end that.
func TestDeadlineOfFirstRoundIsLate(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, s *sim) {
		q := s.quorum()
		for i, m := range s.masters {
			setCounter(m, "lock:job", uint64(10*i))
			delayed(m, "raise", 20*time.Millisecond)
		}
		ended := make(chan error, 1)
		a := q.acquire(Request{Key: "job", TTL: 10 * time.Second}, func(_ Lease, err error) { ended <- err })
		q.Flush()
		synctest.Wait()
		a.attempt.expire()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// A late grant joins the second round.
func TestLateGrantJoinsSecondRound(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, s *sim) {
		q := s.quorum()
		setCounter(s.masters[0], "lock:job", 10)
		answering(s.masters[1], "raise", "-ERR no\r\n")
		s.each(3, 5, func(m *fake.Master) { delayed(m, "acquire", 5*time.Millisecond) })
		start := time.Now()
		lease := mustAcquire(t, q, "job", 10*time.Second)
		if took := time.Since(start); took != 5*time.Millisecond || lease.Token.Fence != 11 {
			t.Errorf("fence %d after %v, want 11 after 5ms", lease.Token.Fence, took)
		}
	})
}

// As long as masters may still grant, the second round is not lost: here both of the late ones are
// needed.
func TestSecondRoundWaitsForLateGrants(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, s *sim) {
		q := s.quorum()
		setCounter(s.masters[0], "lock:job", 10)
		s.each(1, 3, func(m *fake.Master) { answering(m, "raise", "-ERR no\r\n") })
		delayed(s.masters[3], "acquire", 5*time.Millisecond)
		delayed(s.masters[4], "acquire", 7*time.Millisecond)
		start := time.Now()
		lease := mustAcquire(t, q, "job", 10*time.Second)
		if took := time.Since(start); took != 7*time.Millisecond || lease.Token.Fence != 11 {
			t.Errorf("fence %d after %v, want 11 after 7ms", lease.Token.Fence, took)
		}
	})
}

// Without fencing the number is 0 and masters do not count.
func TestFencingOff(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, s *sim) {
		q := s.quorum(func(o *Options) { o.Fencing = false })
		lease := mustAcquire(t, q, "job", time.Second)
		if lease.Token.Fence != 0 || counter(s.masters[0], "lock:job") != 0 {
			t.Errorf("fence %d, counter %d", lease.Token.Fence, counter(s.masters[0], "lock:job"))
		}
		mustRelease(t, q, "job", lease.Token)
	})
}
