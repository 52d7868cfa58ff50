package quorum

import (
	"testing"
	"time"
)

func TestNewDeploymentVotesAtOnce(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, s *sim) {
		start := time.Now()
		q := s.guarded()
		wantStates(t, q, "new", "vvvvv")
		if took := time.Since(start); took != 0 {
			t.Errorf("took %v", took)
		}
		first := mustAcquire(t, q, "job", time.Second)
		if floor := uint64(start.UnixMilli()) << floorShift; first.Token.Fence != floor+1 {
			t.Errorf("fence %d, want %d", first.Token.Fence, floor+1)
		}
		// A second proxy finds them voting.
		other := s.guarded()
		wantStates(t, other, "second proxy", "vvvvv")
		mustRelease(t, other, "job", first.Token)
	})
}

// Proxies that start at the same moment do not put the masters in quarantine between them.
func TestNewDeploymentManyProxies(t *testing.T) {
	for range 20 {
		inBubble(t, 3, func(t *testing.T, s *sim) {
			var all []*Quorum
			for range 3 {
				all = append(all, s.begin(func(o *Options) { o.Guard = GuardOn }))
			}
			for _, q := range all {
				wantStates(t, q, "new", "vvv")
				mustRelease(t, q, "job", mustAcquire(t, q, "job", time.Second).Token)
			}
		})
	}
}

func TestNewDeploymentStrict(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, s *sim) {
		q := s.guarded(func(o *Options) { o.Guard = GuardStrict })
		wantStates(t, q, "at first", "qqq")
		wantHeldOff(t, q, "job", "votes in 61s")
		time.Sleep(minuteAndMargin - time.Millisecond)
		wantStates(t, q, "before the time is over", "qqq")
		time.Sleep(time.Millisecond)
		wantStates(t, q, "after it", "vvv")
		mustAcquire(t, q, "job", time.Second)
	})
}

// A master that is late at the start is waited for, for a while.
func TestNewDeploymentLateMaster(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, s *sim) {
		s.masters[2].stop()
		q := s.begin(func(o *Options) { o.Guard = GuardOn })
		wantStates(t, q, "one away", "qqd")
		wantHeldOff(t, q, "job", "is new and waits for the other masters")
		time.Sleep(2 * time.Second)
		s.masters[2].start()
		time.Sleep(time.Second)
		wantStates(t, q, "it came", "vvv")
	})
	inBubble(t, 3, func(t *testing.T, s *sim) {
		s.masters[2].stop()
		start := time.Now()
		q := s.guarded()
		if took := time.Since(start); took != startGrace {
			t.Errorf("took %v, want %v", took, startGrace)
		}
		wantHeldOff(t, q, "job", "is new or lost its memory, seen 0s ago, votes in 61s")
		s.masters[2].start()
		time.Sleep(time.Second)
		wantStates(t, q, "it came too late", "qqq")
		time.Sleep(minuteAndMargin)
		wantStates(t, q, "after the wait", "vvv")
	})
}
