package quorum

import (
	"sync/atomic"
	"testing"
	"time"

	"lockproxy/quorum/internal/clock"
)

// guarded switches the restart guard on.
func guarded(o *Options) { o.Guard = GuardOn }

// A voter's clock is 0.9 % fast, so its key expires shortly before the ttl ends by the proxy's
// clock. Meanwhile another proxy has extended the lock on the other two masters. The lock is
// still held, although a voter lacks the token before the end of the ttl.
func TestCheckAtEndOfTTL(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, s *sim) {
		var never atomic.Bool
		began := time.Now()
		s.masters[1].Set(func() {
			s.masters[1].Clock = func() time.Time { return began.Add(time.Since(began) * 1009 / 1000) }
		})
		delayed(s.masters[2], "acquire", 5*time.Millisecond)
		q := s.quorum(guarded)
		other := s.quorum(guarded, away(1, &never))
		time.Sleep(2 * time.Second)
		lease := mustAcquire(t, q, "job", checkAfter+10*time.Millisecond)
		time.Sleep(time.Second)
		mustExtend(t, other, "job", lease.Token)
		time.Sleep(checkAfter + fadeTime + time.Second)
		if n := s.masters[2].Ran("check"); n == 0 {
			t.Error("not checked")
		}
		for _, i := range []int{0, 2} {
			if _, ours := s.masters[i].Holds("lock:job", lease.Token.Secret); !ours {
				t.Errorf("master %d lost the lock", i+1)
			}
		}
	})
}

// The third master carries the SET out in time, but its answer is late. Another proxy extends the
// lock on the second and third master. Although the first proxy waits for that answer still, it
// must not take its SET back: the extension needs that master when the key on the first has
// expired.
func TestUnansweredSetIsNotTakenBack(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, s *sim) {
		var never, late atomic.Bool
		q := s.quorum(reading(2, func() error {
			if late.Load() {
				time.Sleep(1500 * time.Millisecond)
			}
			return nil
		}))
		other, third := s.quorum(away(0, &never)), s.quorum()
		late.Store(true)
		lease := mustAcquire(t, q, "job", time.Second)
		time.Sleep(300 * time.Millisecond)
		left, err := other.Extend(t.Context(), []string{"job"}, lease.Token, time.Second, false)
		if err != nil {
			t.Fatal(err)
		}
		const until = 750 * time.Millisecond
		time.Sleep(until)
		if _, err := third.Acquire(t.Context(), Request{Key: "job", TTL: time.Second}); err == nil {
			t.Errorf("granted to another, %v before the end of the extension", left-until)
		}
	})
}

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
				s.wantChecks(t, c.checks)
			})
		})
	}
}

// wantChecks fails unless masters were asked so many checks, and no fade.
func (s *sim) wantChecks(t *testing.T, checks [5]int) {
	t.Helper()
	for i, m := range s.masters {
		if n := m.Ran("check"); n != checks[i] {
			t.Errorf("%d checks on master %d, want %d", n, i+1, checks[i])
		}
		if n := m.Ran("fade"); n != 0 {
			t.Errorf("%d fades on master %d, want none", n, i+1)
		}
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

func TestVotersJudgeWhileTheirKeysLast(t *testing.T) {
	for _, c := range []struct {
		name   string
		n      int
		forget bool // masters may forget
		voters uint64
		voted  time.Duration // from now on
		want   uint64
	}{
		{"the voters of three", 3, false, 0b011, time.Second, 0b011},
		{"the voters of five", 5, false, 0b10110, time.Second, 0b10110},
		{"their keys expire", 3, false, 0b011, 0, allMasters},
		{"they may have lost it", 3, true, 0b011, time.Second, allMasters},
		{"one was filled since", 3, false, 0b001, time.Second, allMasters},
		{"not known", 5, false, 0, time.Second, allMasters},
		{"half of four", 4, false, 0b0011, time.Second, 0b0011},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := &check{voters: c.voters, clock: clock.Start(), keeps: make([]time.Duration, c.n)}
			k.held(c.voters, k.clock.Begun().Add(c.voted))
			if got := k.judges(c.n, c.forget); got != c.want {
				t.Errorf("%b, want %b", got, c.want)
			}
		})
	}
}

// TestCheckVerdict: a master that held the token and lacks it before its key ends shows a release,
// whether it made the lease or was set late. The key of a master that holds it is no evidence
// if it was set late.
func TestCheckVerdict(t *testing.T) {
	for _, c := range []struct {
		name         string
		forget       bool // masters may forget
		voters, late uint64
		left         time.Duration // of the keys
		has, lacks   uint64
		want         verdict
	}{
		{"voters have it", false, 0b011, 0b100, time.Second, 0b111, 0, won},
		{"a voter lacks it", false, 0b011, 0b100, time.Second, 0b110, 0b001, lost},
		{"a late one lacks it", false, 0b001, 0b110, time.Second, 0b101, 0b010, lost},
		{"no voter is left, a late one lacks it", false, 0, 0b111, time.Second, 0b110, 0b001, lost},
		{"no voter is left, late ones have it", false, 0, 0b111, time.Second, 0b111, 0, noQuorum},
		{"its key may have expired", false, 0b011, 0b100, 0, 0b110, 0b001, noQuorum},
		{"it never held it", false, 0b001, 0b100, time.Second, 0b101, 0b010, noQuorum},
		{"it may have lost its memory", true, 0b011, 0b100, time.Second, 0b110, 0b001, noQuorum},
		{"a voter may have forgotten, no majority has it", true, 0b011, 0b100, time.Second, 0b100, 0b001, lost},
		{"a late one may have forgotten", true, 0b001, 0b110, time.Second, 0b001, 0b010, noQuorum},
		{"a majority lacks it", true, 0, 0, 0, 0b001, 0b110, lost},
		{"no answers", false, 0b011, 0b100, time.Second, 0, 0, noQuorum},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := &check{voters: c.voters, clock: clock.Start(), keeps: make([]time.Duration, 3)}
			k.held(c.voters|c.late, k.clock.Begun().Add(c.left))
			if got := k.verdict(c.has, c.lacks, 3, c.forget); got != c.want {
				t.Errorf("verdict %v, want %v", got, c.want)
			}
		})
	}
}
