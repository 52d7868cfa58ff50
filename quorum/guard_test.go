package quorum

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// guarded is sim.quorum with the restart guard on.
func (s *sim) guarded(change ...func(*Options)) *Quorum {
	s.t.Helper()
	return s.quorum(append([]func(*Options){func(o *Options) { o.Guard = GuardOn }}, change...)...)
}

func withMaxTTL(d time.Duration) func(*Options) { return func(o *Options) { o.MaxTTL = d } }

// states is the states of all masters, by their first letters.
func states(q *Quorum) string {
	var b strings.Builder
	for _, m := range q.Masters() {
		b.WriteString(string(m.State)[:1])
	}
	return b.String()
}

// wantStates fails unless the masters stand so now, by first letters: voting, quarantined, down, refused.
func wantStates(t *testing.T, q *Quorum, what, want string) {
	t.Helper()
	synctest.Wait()
	if got := states(q); got != want {
		t.Errorf("%s: masters are %s, want %s: %+v", what, got, want, q.Masters())
	}
}

// wantHeldOff fails if the key can be locked.
func wantHeldOff(t *testing.T, q *Quorum, key, says string) {
	t.Helper()
	_, err := q.Acquire(t.Context(), Request{Key: key, TTL: time.Second})
	if err == nil || !errors.Is(err, ErrNoQuorum) && !errors.Is(err, ErrHeld) {
		t.Errorf("Acquire(%q): %v, want none", key, err)
		return
	}
	if !strings.Contains(err.Error(), says) {
		t.Errorf("Acquire(%q): %v, want it to say %q", key, err, says)
	}
}

const minuteAndMargin = time.Minute + 600*time.Millisecond + 52*time.Millisecond

func TestRestartedMastersWait(t *testing.T) {
	lose := map[string]func(*fakeMaster){
		"restarted empty":            func(m *fakeMaster) { m.restart(m.runID+"b", false) },
		"restarted with what it had": func(m *fakeMaster) { m.restart(m.runID+"b", true) },
		"flushed":                    (*fakeMaster).flushAll,
	}
	for what, lose := range lose {
		t.Run(what, func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, s *sim) {
				q := s.guarded()
				lease := mustAcquire(t, q, "job", time.Minute)
				s.each(0, 2, lose)
				wantHeldOff(t, q, "job", "")
				wantHeldOff(t, q, "free", "")
				time.Sleep(time.Second)
				wantStates(t, q, "after a second", "qqv")
				wantHeldOff(t, q, "free", "1 of 3 masters can vote, 2 needed: ")
				for _, m := range q.Masters()[:2] {
					if m.VotesIn < 59*time.Second || m.VotesIn > minuteAndMargin {
						t.Errorf("votes in %v", m.VotesIn)
					}
				}
				// A proxy that was not there sees the same marks, and begins to count when it first sees them.
				time.Sleep(10 * time.Second)
				late := s.guarded()
				wantStates(t, late, "for a proxy that comes late", "qqv")
				time.Sleep(minuteAndMargin - 11*time.Second - 500*time.Millisecond)
				wantHeldOff(t, q, "job", "votes in 1s")
				wantHeldOff(t, late, "job", "")
				time.Sleep(time.Second)
				wantStates(t, q, "after the wait", "vvv")
				time.Sleep(time.Second)
				wantStates(t, late, "and for the other", "vvv")
				if next := mustAcquire(t, late, "job", time.Second); next.Token.Fence <= lease.Token.Fence {
					t.Errorf("fence %d after %d", next.Token.Fence, lease.Token.Fence)
				}
			})
		})
	}
}

// The same proxy is away while the masters restart, or starts only afterwards.
func TestRestartUnseen(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, s *sim) {
		q := s.guarded()
		lease := mustAcquire(t, q, "job", time.Minute)
		_ = q.Close(t.Context())
		s.each(0, 2, func(m *fakeMaster) { m.restart(m.runID+"b", false) })
		late := s.guarded()
		wantStates(t, late, "at first", "qqv")
		time.Sleep(59 * time.Second)
		wantHeldOff(t, late, "job", "votes in 2s")
		time.Sleep(2 * time.Second)
		wantStates(t, late, "after the wait", "vvv")
		if next := mustAcquire(t, late, "job", time.Second); next.Token.Fence <= lease.Token.Fence {
			t.Errorf("fence %d after %d", next.Token.Fence, lease.Token.Fence)
		}
	})
}

func TestAllMastersWiped(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, s *sim) {
		q := s.guarded()
		lease := mustAcquire(t, q, "job", time.Minute)
		s.each(0, 3, (*fakeMaster).flushAll)
		wantHeldOff(t, q, "job", "")
		time.Sleep(2 * time.Second)
		wantStates(t, q, "flushed", "qqq")
		time.Sleep(minuteAndMargin)
		wantStates(t, q, "after the wait", "vvv")
		if next := mustAcquire(t, q, "job", time.Second); next.Token.Fence <= lease.Token.Fence {
			t.Errorf("fence %d after %d", next.Token.Fence, lease.Token.Fence)
		}
	})
}

// A proxy that starts when all masters have just been emptied takes them for new; one that was there knows better.
func TestAllMastersWipedBeforeAnotherStarts(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, s *sim) {
		q := s.guarded()
		mustAcquire(t, q, "job", time.Minute)
		time.Sleep(200 * time.Millisecond) // the first proxy asks nothing until its next look
		s.each(0, 3, (*fakeMaster).flushAll)
		other := s.guarded()
		wantStates(t, other, "for the new one", "vvv")
		time.Sleep(time.Second)
		wantStates(t, q, "after the old one looked", "qqq")
		wantHeldOff(t, other, "job", "") // it may have looked just before
		synctest.Wait()
		wantHeldOff(t, other, "job", "votes in")
		time.Sleep(minuteAndMargin)
		wantStates(t, q, "after the wait", "vvv")
	})
}

func TestDurableMaster(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, s *sim) {
		durable := func(m *fakeMaster) {
			m.set(func() {
				m.facts["aof_enabled"], m.config["appendonly"], m.config["appendfsync"] = "1", "yes", "always"
			})
		}
		s.each(0, 2, durable)
		q := s.guarded()
		time.Sleep(2 * time.Second)
		lease := mustAcquire(t, q, "job", time.Minute)
		s.each(0, 3, func(m *fakeMaster) { m.restart(m.runID+"b", true) })
		s.each(2, 3, durable) // what its configuration says now proves nothing
		time.Sleep(time.Second)
		wantStates(t, q, "restarted", "vvq")
		wantHeldOff(t, q, "job", "")
		mustRelease(t, q, "job", lease.Token)
		mustAcquire(t, q, "job", time.Second)
		// The mark is gone within a second of the setting.
		s.each(0, 1, func(m *fakeMaster) { m.set(func() { m.config["appendfsync"] = "everysec" }) })
		time.Sleep(2 * time.Second)
		s.each(0, 1, func(m *fakeMaster) { m.restart(m.runID+"c", true) })
		time.Sleep(time.Second)
		wantStates(t, q, "no longer durable", "qvq")
	})
}

// A copy of a durable master from before is not the master.
func TestOldCopyOfDurableMaster(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, s *sim) {
		s.each(0, 1, func(m *fakeMaster) {
			m.set(func() {
				m.facts["aof_enabled"], m.config["appendonly"], m.config["appendfsync"] = "1", "yes", "always"
			})
		})
		q := s.guarded()
		time.Sleep(2 * time.Second)
		m := s.masters[0]
		old := map[string]string{}
		m.set(func() {
			maps.Copy(old, m.state)
		})
		m.restart("run-0b", true)
		time.Sleep(2 * time.Second)
		wantStates(t, q, "restarted", "vvv")
		m.restart("run-0c", true)
		m.set(func() { m.state = old })
		time.Sleep(time.Second)
		wantStates(t, q, "with an older copy", "qvv")
	})
}

func TestClockStep(t *testing.T) {
	for _, step := range []time.Duration{time.Minute, -time.Hour, 300 * time.Millisecond} {
		t.Run(step.String(), func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, s *sim) {
				q := s.guarded()
				lease := mustAcquire(t, q, "job", time.Minute)
				time.Sleep(3 * time.Second)
				s.each(0, 2, func(m *fakeMaster) { m.set(func() { m.ahead = step }) })
				wantHeldOff(t, q, "job", "stepped its clock")
				synctest.Wait()
				wantStates(t, q, "at once", "qqv")
				time.Sleep(minuteAndMargin)
				wantStates(t, q, "after the wait", "vvv")
				if step < 0 { // it keeps its key for so much longer
					mustRelease(t, q, "job", lease.Token)
				}
				if next := mustAcquire(t, q, "job", time.Second); next.Token.Fence <= lease.Token.Fence || next.Token.Fence > lease.Token.Fence+5 {
					t.Errorf("fence %d after %d, want just above: counters were kept", next.Token.Fence, lease.Token.Fence)
				}
			})
		})
	}
	t.Run("rates", func(t *testing.T) {
		inBubble(t, 3, func(t *testing.T, s *sim) {
			q := s.guarded()
			for i := range 120 {
				time.Sleep(500 * time.Millisecond)
				s.each(0, 2, func(m *fakeMaster) { m.set(func() { m.ahead += 4500 * time.Microsecond }) }) // 0.9 %
				mustRelease(t, q, "job", mustAcquire(t, q, "job", time.Second).Token)
				if i%20 == 0 {
					wantStates(t, q, "fast clocks", "vvv")
				}
			}
			s.each(0, 1, func(m *fakeMaster) { m.set(func() { m.ahead = 0 }) })
			time.Sleep(2 * time.Second)
			wantStates(t, q, "0.54s back", "qvv")
		})
	})
}

func TestEviction(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, s *sim) {
		lru := func(m *fakeMaster) {
			m.set(func() { m.facts["maxmemory"], m.facts["maxmemory_policy"] = "1000000", "allkeys-lru" })
		}
		q := s.guarded()
		s.each(0, 2, lru)
		time.Sleep(time.Second)
		wantStates(t, q, "policy set", "rrv")
		wantHeldOff(t, q, "job", "may evict locks (maxmemory-policy allkeys-lru, not noeviction)")
		allowed := s.guarded(func(o *Options) { o.AllowEviction = true })
		wantStates(t, allowed, "allowed", "vvv")
		s.each(0, 1, func(m *fakeMaster) { m.set(func() { m.facts["evicted_keys"] = "1" }) })
		time.Sleep(time.Second)
		wantStates(t, allowed, "evicted", "qvv")
		s.each(0, 2, func(m *fakeMaster) { m.set(func() { m.facts["maxmemory_policy"] = "noeviction" }) })
		time.Sleep(time.Second)
		wantStates(t, q, "policy mended", "qvv")
		time.Sleep(minuteAndMargin)
		wantStates(t, allowed, "after the wait", "vvv")
		wantStates(t, q, "after the wait", "vvv")
	})
}

func TestOtherSettings(t *testing.T) {
	differ := map[string]struct {
		change func(*Options)
		says   string
	}{
		"max-ttl":             {withMaxTTL(30 * time.Second), "belongs to proxies with max-ttl 60000ms (here 30000ms)"},
		"fencing":             {func(o *Options) { o.Fencing = false }, "belongs to proxies with fencing on (here off)"},
		"guard":               {func(o *Options) { o.Guard = GuardOff }, "belongs to proxies with restart-guard on (here off)"},
		"masters":             {func(o *Options) { o.Masters[0].ID = "m1" }, "belongs to proxies with another list of masters"},
		"prefix and its lock": {func(o *Options) { o.Masters[0].DB = 0; o.KeyPrefix = "other:" }, ""},
	}
	for name, d := range differ {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, s *sim) {
				q := s.guarded()
				mustAcquire(t, q, "job", time.Second)
				other := s.guarded(d.change)
				if d.says == "" {
					t.Skip("the fakes have one hash for all prefixes")
				}
				wantStates(t, other, "other settings", "rrr")
				wantHeldOff(t, other, "free", d.says)
				wantStates(t, q, "the first", "vvv")
			})
		})
	}
}

// Growing from 3 to 5: the old proxies are stopped, the old masters are moved.
func TestGrow(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, s *sim) {
		old := s.guarded(func(o *Options) { o.Masters = o.Masters[:3] })
		lease := mustAcquire(t, old, "job", time.Minute)
		_ = old.Close(t.Context())
		q := s.guarded()
		wantStates(t, q, "new list", "rrrqq")
		time.Sleep(2 * minuteAndMargin)
		wantStates(t, q, "long after", "rrrqq")
		wantHeldOff(t, q, "job", "waits until no master belongs to proxies with other settings")
		for i := range 3 {
			if err := q.Admit(t.Context(), fmt.Sprintf("10.0.0.%d:6379", i+1)); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Second)
		wantStates(t, q, "moved", "qqqqq")
		wantHeldOff(t, q, "job", "was moved by LOCKPROXY ADMIT 1s ago, votes in 60s")
		time.Sleep(minuteAndMargin)
		wantStates(t, q, "after the wait", "vvvvv")
		if next := mustAcquire(t, q, "job", time.Second); next.Token.Fence <= lease.Token.Fence || next.Token.Fence > lease.Token.Fence+5 {
			t.Errorf("fence %d after %d, want just above: counters were kept", next.Token.Fence, lease.Token.Fence)
		}
		if err := q.Admit(t.Context(), "10.0.0.1:6379"); err != nil {
			t.Errorf("Admit of one that votes: %v", err)
		}
		if err := q.Admit(t.Context(), "10.0.0.9:6379"); !errors.Is(err, ErrNoSuchMaster) {
			t.Errorf("Admit of none: %v", err)
		}
	})
}

// New masters that are a majority alone do not vote before the one that comes from others has waited for their max-ttl.
func TestGrowFromOne(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, s *sim) {
		old := s.guarded(func(o *Options) { o.Masters = o.Masters[:1] })
		lease := mustAcquire(t, old, "job", time.Minute)
		q := s.guarded(withMaxTTL(3 * time.Second))
		time.Sleep(20 * time.Second)
		wantStates(t, q, "long after", "rqq")
		if err := q.Admit(t.Context(), "10.0.0.1:6379"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		wantStates(t, q, "moved", "qqq")
		wantStates(t, old, "moved, for the old proxy", "r")
		time.Sleep(minuteAndMargin - time.Second - 100*time.Millisecond)
		wantStates(t, q, "just before the end of the wait", "qqq")
		time.Sleep(time.Second)
		wantStates(t, q, "after the wait", "vvv")
		if next := mustAcquire(t, q, "job", time.Second); next.Token.Fence <= lease.Token.Fence {
			t.Errorf("fence %d after %d", next.Token.Fence, lease.Token.Fence)
		}
	})
}

// The counters of N/2+1 others are waited for as long as they may exist; ADMIT goes without.
func TestCountersAwaited(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, s *sim) {
		q := s.guarded()
		lease := mustAcquire(t, q, "job", time.Second)
		s.masters[2].stop()
		s.masters[0].restart("run-0b", false)
		time.Sleep(2 * minuteAndMargin)
		wantStates(t, q, "the third is away", "qvd")
		wantHeldOff(t, q, "job", "waits for the fencing counters of 1 more")
		s.masters[2].start()
		time.Sleep(time.Second)
		wantStates(t, q, "it is back", "vvv")
		if next := mustAcquire(t, q, "job", time.Second); next.Token.Fence <= lease.Token.Fence || next.Token.Fence > lease.Token.Fence+5 {
			t.Errorf("fence %d after %d, want just above", next.Token.Fence, lease.Token.Fence)
		}

		s.masters[2].stop()
		s.masters[0].restart("run-0c", false)
		time.Sleep(2 * minuteAndMargin)
		if err := q.Admit(t.Context(), "10.0.0.1:6379"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		wantStates(t, q, "admitted by the operator", "vvd")
		mustAcquire(t, q, "free", time.Second)
	})
}

// A counter that is ahead of the clock shows that the clock cannot take the place of those that were lost.
func TestCountersAhead(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, s *sim) {
		q := s.guarded()
		s.each(2, 3, func(m *fakeMaster) { m.set(func() { m.counters["5"] = 1 << 52 }) })
		s.each(0, 2, (*fakeMaster).flushAll)
		time.Sleep(2 * minuteAndMargin)
		wantStates(t, q, "after the wait", "qqv")
		wantHeldOff(t, q, "job", "has fencing counters ahead of the clock, LOCKPROXY ADMIT lets it vote")
		for i := range 2 {
			if err := q.Admit(t.Context(), fmt.Sprintf("10.0.0.%d:6379", i+1)); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Second)
		wantStates(t, q, "admitted by the operator", "vvv")
		if lease := mustAcquire(t, q, "job", time.Second); lease.Token.Fence <= 1<<52 {
			t.Errorf("fence %d", lease.Token.Fence)
		}
	})
}
