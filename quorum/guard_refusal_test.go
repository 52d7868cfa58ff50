package quorum

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

const misconf = "-MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.\r\n"

// refuseAdmit makes a master refuse every change of its record, and counts them.
func refuseAdmit(m *fakeMaster) *atomic.Int32 {
	n := new(atomic.Int32)
	m.set(func() {
		m.hook = func(cmd string) (time.Duration, string) {
			if strings.HasPrefix(cmd, "admit ") {
				n.Add(1)
				return time.Millisecond, misconf
			}
			return 0, ""
		}
	})
	return n
}

// A master that refuses to have its record changed is asked again once a second, not in a loop.
func TestAdmitRefused(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, s *sim) {
		q := s.guarded()
		n := refuseAdmit(s.masters[0])
		s.masters[0].restart("run-0b", false)
		time.Sleep(10 * time.Second)
		wantStates(t, q, "refuses", "qvv")
		if got := n.Load(); got < 5 || got > 25 {
			t.Errorf("asked %d times in 10s", got)
		}
		if reason := q.Masters()[0].Reason; !strings.Contains(reason, "MISCONF") {
			t.Errorf("reason %q", reason)
		}
		s.masters[0].set(func() { s.masters[0].hook = nil })
		time.Sleep(minuteAndMargin + 2*time.Second)
		wantStates(t, q, "after the wait", "vvv")
	})
}

// A durable mark that cannot be set keeps nobody from voting.
func TestNoteRefused(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, s *sim) {
		_ = s.guarded().Close(t.Context())
		s.each(0, 3, makeDurable)
		s.each(0, 3, func(m *fakeMaster) { refuseAdmit(m) })
		q := s.begin(func(o *Options) { o.Guard = GuardOn })
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if err := q.WaitReady(ctx); err != nil {
			t.Errorf("WaitReady: %v", err)
		}
		wantStates(t, q, "admitted before", "vvv")
		mustAcquire(t, q, "job", time.Second)
	})
}

// makeDurable is the configuration of a master that has every write on disk before its reply.
func makeDurable(m *fakeMaster) {
	m.set(func() { m.facts["aof_enabled"], m.config["appendonly"], m.config["appendfsync"] = "1", "yes", "always" })
}
