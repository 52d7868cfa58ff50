package quorum

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// votingRecord is what stands on a master that has been admitted as part of a new deployment.
func votingRecord(q *Quorum, m *fakeMaster, born string) map[string]string {
	return map[string]string{"record": fmt.Sprintf("A %s %s %s", m.runID, q.guard.fingerprint, q.opts.dice.newNonce()), "settings": q.guard.ours.String(), "born": born}
}

// A proxy that has seen two masters marked as new finds the third blank: meanwhile another proxy has opened the deployment,
// and the third has lost what it granted.
func TestOpeningSeenTooLate(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, s *sim) {
		s.masters[0].state["record"], s.masters[2].state["record"] = "N run-0 n0", "N run-2 n2"
		s.masters[1].hook = func(cmd string) (time.Duration, string) {
			if cmd == "INFO" {
				return 100 * time.Millisecond, ""
			}
			return 0, ""
		}
		q := s.begin(func(o *Options) { o.Guard = GuardOn })
		time.Sleep(50 * time.Millisecond)
		for _, i := range []int{0, 2} {
			m := s.masters[i]
			m.set(func() { m.state = votingRecord(q, m, "n0,n1,n2") })
		}
		time.Sleep(950 * time.Millisecond)
		wantStates(t, q, "opened by another", "vqv")
	})
}

// A proxy that saw a master vote does not help to open a deployment with it.
func TestOpeningRemembered(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, s *sim) {
		q := s.guarded()
		mustAcquire(t, q, "job", time.Minute)
		time.Sleep(500 * time.Millisecond)
		s.each(0, 3, (*fakeMaster).flushAll)
		s.masters[0].set(func() { s.masters[0].state = votingRecord(q, s.masters[0], "n0,n1,n2") })
		s.masters[1].set(func() { s.masters[1].state["record"] = "N run-1 n1" })
		s.masters[2].set(func() { s.masters[2].state["record"] = "N run-2 n2" })
		slow := func(m *fakeMaster, word string) {
			m.set(func() {
				m.hook = func(cmd string) (time.Duration, string) {
					if strings.HasPrefix(cmd, word) {
						return 10 * time.Millisecond, ""
					}
					return 0, ""
				}
			})
		}
		slow(s.masters[0], "admit ") // it is seen to vote until the second has been looked at
		slow(s.masters[1], "look ")
		before := s.masters[1].ran("admit")
		time.Sleep(time.Second)
		wantStates(t, q, "wiped and opened anew", "qqq")
		if n := s.masters[1].ran("admit") - before; n != 1 {
			t.Errorf("%d changes of the second, want a mark only", n)
		}
	})
}

// Masters that come up long after the proxy, one after another, are a new deployment all the same.
func TestNewDeploymentAfterProxy(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, s *sim) {
		s.each(0, 3, (*fakeMaster).stop)
		q := s.begin(func(o *Options) { o.Guard = GuardOn })
		time.Sleep(20 * time.Second)
		s.masters[0].start()
		time.Sleep(2 * time.Second)
		wantHeldOff(t, q, "job", "is new and waits for the other masters")
		s.each(1, 3, (*fakeMaster).start)
		time.Sleep(time.Second)
		wantStates(t, q, "all came", "vvv")
	})
}

// Counters of a time without fencing count for nothing.
func TestFencingSwitchedOn(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, s *sim) {
		s.masters[2].counters[fmt.Sprint(slot("lock:job"))] = 1000
		off := s.guarded(func(o *Options) { o.Fencing, o.Guard = false, GuardStrict })
		time.Sleep(2 * minuteAndMargin)
		wantStates(t, off, "without fencing", "vvv")
		_ = off.Close(t.Context())
		s.masters[2].stop()
		q := s.guarded()
		for i := range 2 {
			if err := q.Admit(t.Context(), fmt.Sprintf("10.0.0.%d:6379", i+1)); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(minuteAndMargin + 2*time.Second)
		if states(q) != "vvd" { // it may as well wait for the third
			return
		}
		if lease := mustAcquire(t, q, "job", time.Second); lease.Token.Fence <= 1000 {
			t.Errorf("fence %d after 1000", lease.Token.Fence)
		}
	})
}

// A replica may have thrown away the last of what it had.
func TestReplicaAndBack(t *testing.T) {
	role := func(role string) func(*fakeMaster) {
		return func(m *fakeMaster) { m.set(func() { m.role = role }) }
	}
	inBubble(t, 3, func(t *testing.T, s *sim) {
		q := s.guarded()
		mustAcquire(t, q, "job", time.Minute)
		s.each(0, 2, role("slave"))
		time.Sleep(2 * time.Second)
		wantStates(t, q, "replicas", "rrv")
		s.each(0, 2, role("master"))
		time.Sleep(2 * time.Second)
		wantStates(t, q, "masters again", "qqv")
		wantHeldOff(t, q, "free", "was a replica ")
		time.Sleep(minuteAndMargin)
		wantStates(t, q, "after the wait", "vvv")
	})
	// It may be one again before anybody asks.
	inBubble(t, 3, func(t *testing.T, s *sim) {
		q := s.guarded()
		time.Sleep(500 * time.Millisecond)
		m := s.masters[0]
		m.set(func() {
			m.hook = func(cmd string) (time.Duration, string) {
				if strings.HasPrefix(cmd, "acquire ") {
					return 0, "-READONLY You can't write against a read only replica. script: x, on @user_script:16.\r\n"
				}
				return 0, ""
			}
		})
		mustAcquire(t, q, "job", time.Minute)
		wantStates(t, q, "said that it is a replica", "qvv")
	})
}

// A release that was on its way when the master was admitted does not take its vote away.
func TestReleaseAcrossAdmission(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, s *sim) {
		q := s.guarded()
		lease := mustAcquire(t, q, "job", time.Minute)
		time.Sleep(500 * time.Millisecond)
		m := s.masters[0]
		m.flushAll()
		time.Sleep(time.Second)
		wantStates(t, q, "flushed", "qvv")
		m.set(func() {
			m.state = votingRecord(q, m, "")
			m.hook = func(cmd string) (time.Duration, string) {
				if strings.HasPrefix(cmd, "look ") {
					return 10 * time.Millisecond, ""
				}
				return 0, ""
			}
		})
		time.Sleep(505 * time.Millisecond)
		mustRelease(t, q, "job", lease.Token)
		time.Sleep(10 * time.Millisecond)
		wantStates(t, q, "admitted by another", "vvv")
	})
}
