package quorum

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// Masters that lose their counters one after another get them back from the others, each before it votes.
func TestCountersHandedOn(t *testing.T) {
	for n := 3; n <= 5; n++ {
		inBubble(t, n, func(t *testing.T, s *sim) {
			q := s.guarded()
			field := strconv.FormatUint(uint64(slot("lock:job")), 10)
			s.each(0, n, func(m *fakeMaster) { m.set(func() { m.counters[field] += 1000 }) })
			lease := mustAcquire(t, q, "job", time.Second)
			mustRelease(t, q, "job", lease.Token)
			lose := majority(n)
			for i := range lose {
				s.masters[i].restart(s.masters[i].runID+"b", false)
				time.Sleep(minuteAndMargin + 2*time.Second)
				wantStates(t, q, "restarted", strings.Repeat("v", n))
				if got := s.masters[i].counters[field]; got < lease.Token.Fence || got > lease.Token.Fence+1 {
					t.Errorf("counter %d on master %d of %d, want that of the others, %d", got, i+1, n, lease.Token.Fence)
				}
			}
			s.each(lose, n, (*fakeMaster).stop)
			if next := mustAcquire(t, q, "job", time.Second); next.Token.Fence <= lease.Token.Fence {
				t.Errorf("fence %d after %d, from masters that had all lost their counters", next.Token.Fence, lease.Token.Fence)
			}
		})
	}
}

// What only the operator can mend is logged once, not every second.
func TestCountersAheadSaidOnce(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, s *sim) {
		core, logs := observer.New(zap.ErrorLevel)
		q := s.guarded(func(o *Options) { o.Log = zap.New(core) })
		s.each(2, 3, func(m *fakeMaster) { m.set(func() { m.counters["5"] = 1 << 52 }) })
		s.each(0, 2, (*fakeMaster).flushAll)
		time.Sleep(3 * minuteAndMargin)
		wantStates(t, q, "after the wait", "qqv")
		if n := logs.FilterMessageSnippet("ahead of the clock").Len(); n != 2 {
			t.Errorf("%d lines for two masters", n)
		}
	})
}

// A master that says that its record has changed does not vote again before it has been looked at, whatever the guard
// hears of others meanwhile.
func TestNoVoteBeforeLook(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, s *sim) {
		q := s.guarded()
		time.Sleep(500 * time.Millisecond)
		m := s.masters[0]
		m.flushAll()
		m.set(func() {
			m.hook = func(cmd string) (time.Duration, string) {
				if strings.HasPrefix(cmd, "look ") {
					return 10 * time.Millisecond, ""
				}
				return 0, ""
			}
		})
		mustAcquire(t, q, "job", time.Second)
		wantStates(t, q, "has said so", "qvv")
		s.masters[2].stop()
		time.Sleep(5 * time.Millisecond)
		wantStates(t, q, "another went away", "qvd")
	})
}
