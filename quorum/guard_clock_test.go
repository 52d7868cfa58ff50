package quorum

import (
	"strings"
	"testing"
	"time"
)

// A clock that steps there and back has let keys run out.
func TestClockStepsBack(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, s *sim) {
		q := s.guarded()
		mustAcquire(t, q, "job", time.Minute)
		s.each(0, 2, func(m *fakeMaster) {
			m.set(func() {
				m.ahead = 2 * time.Minute
				m.hook = func(cmd string) (time.Duration, string) {
					if cmd == "INFO" { // the look that follows the vote
						m.set(func() { m.ahead = 0 })
					}
					return 0, ""
				}
			})
		})
		wantHeldOff(t, q, "job", "")
		wantHeldOff(t, q, "job", "")
		wantStates(t, q, "there and back", "qqv")
		time.Sleep(minuteAndMargin)
		wantStates(t, q, "after the wait", "vvv")
	})
}

// An unlock that was on its way when the step was seen is no vote.
func TestUnlockBehindStep(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, s *sim) {
		q := s.guarded()
		lease := mustAcquire(t, q, "job", time.Minute)
		s.each(0, 2, func(m *fakeMaster) {
			m.set(func() {
				m.ahead = 2 * time.Minute
				m.hook = func(cmd string) (time.Duration, string) {
					if strings.HasPrefix(cmd, "acquire ") {
						return 10 * time.Millisecond, ""
					}
					return 0, ""
				}
			})
		})
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = q.Acquire(t.Context(), Request{Key: "other", TTL: time.Second})
		}()
		time.Sleep(time.Millisecond)
		ok, err := q.Release(t.Context(), "job", lease.Token)
		<-done
		if err == nil || ok {
			t.Errorf("Release: %v, %v, want ErrNoQuorum: two of three must not vote", ok, err)
		}
		s.masters[2].mu.Lock()
		defer s.masters[2].mu.Unlock()
		if len(s.masters[2].store) > 1 {
			t.Errorf("left on the third: %v", s.masters[2].store)
		}
	})
}

// CONFIG RESETSTAT does not hide evictions.
func TestEvictionAfterResetStat(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, s *sim) {
		m := s.masters[0]
		m.set(func() { m.facts["evicted_keys"] = "10" })
		q := s.guarded()
		time.Sleep(500 * time.Millisecond)
		for _, n := range []string{"0", "10"} { // one reset seen, one with evictions in the same second
			m.set(func() { m.facts["evicted_keys"] = n })
			time.Sleep(time.Second)
		}
		wantStates(t, q, "evicted after the first reset", "qvv")
		time.Sleep(minuteAndMargin + time.Second)
		wantStates(t, q, "after the wait", "vvv")
		m.set(func() { m.facts["evicted_keys"] = "3" })
		time.Sleep(time.Second)
		wantStates(t, q, "evicted after the second", "qvv")
	})
}
