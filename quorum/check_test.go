package quorum

import (
	"sync/atomic"
	"testing"
	"time"
)

// guarded switches the restart guard on.
func guarded(o *Options) { o.Guard = GuardOn }

// A check asks the late masters, and the voters only if one of those has the token.
func TestCheckAsksFewMasters(t *testing.T) {
	for _, c := range []struct {
		name     string
		released bool
		checks   [5]int // by master; the last two grant late
	}{
		{"released elsewhere", true, [5]int{0, 0, 0, 1, 1}},
		{"held", false, [5]int{1, 1, 1, 1, 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, 5, func(t *testing.T, s *sim) {
				q, other := s.quorum(guarded), s.quorum(guarded)
				for _, m := range s.masters[3:] {
					delayed(m, "acquire", time.Millisecond)
				}
				time.Sleep(2 * time.Second)
				lease := mustAcquire(t, q, "job", time.Minute)
				time.Sleep(10 * time.Millisecond)
				if c.released {
					mustRelease(t, other, "job", lease.Token)
				}
				time.Sleep(checkAfter + time.Second)
				for i, m := range s.masters {
					if n := m.Ran("check"); n != c.checks[i] {
						t.Errorf("%d checks on master %d, want %d", n, i+1, c.checks[i])
					}
					if n := m.Ran("fade"); n != 0 {
						t.Errorf("%d fades on master %d, want none", n, i+1)
					}
				}
			})
		})
	}
}

// The master with the late token is paused during the check. A voter shows that the lock was
// released, and the token fades once the master is back.
func TestCheckWithLateMasterAway(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, s *sim) {
		var never atomic.Bool
		q, other := s.quorum(guarded), s.quorum(guarded, away(2, &never))
		late := s.masters[2]
		delayed(late, "acquire", 20*time.Millisecond)
		time.Sleep(2 * time.Second)
		lease := mustAcquire(t, q, "job", time.Minute)
		mustRelease(t, other, "job", lease.Token)
		time.Sleep(time.Second)
		if _, ours := late.Holds("lock:job", lease.Token.Secret); !ours {
			t.Error("not granted late")
		}
		late.Pause()
		time.Sleep(checkAfter)
		late.Resume()
		time.Sleep(fadeTime + 100*time.Millisecond)
		s.noKeys("after the check")
	})
}
