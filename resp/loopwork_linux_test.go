package resp

import (
	"slices"
	"testing"
	"time"
)

// A loop that has nothing to do looks again, but not where that would leave the processor to one who computes.
func TestLoopLooksAgain(t *testing.T) {
	for _, c := range []struct {
		name string
		took time.Duration
		want int
	}{
		{"beside those who soon sleep", yieldMost - 1, 2 + looksAgain},
		{"beside one who computes", time.Hour, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newTurnPair(t, func(_, _ *sock) {})
			looks := 0
			p.l.busy = func() bool {
				looks++
				return false
			}
			p.l.yielded(time.Now(), c.took)
			p.l.work()
			if looks != c.want && (c.took >= yieldMost || p.l.noYield.IsZero()) { // else the machine has such a one
				t.Errorf("looked %d times, want %d", looks, c.want)
			}
		})
	}
}

func TestLoopYieldsAgain(t *testing.T) {
	var l loop
	if l.yielded(time.Now(), yieldMost-1); !l.noYield.IsZero() {
		t.Error("yields no more after a short while")
	}
	l.yielded(time.Now(), yieldMost)
	if l.yield() {
		t.Error("yields again at once")
	}
	l.yielded(time.Now().Add(-yieldRarely*yieldMost), yieldMost)
	if !l.yield() {
		t.Error("does not yield after a while")
	}
}

// A command of ours that waits for its turn goes on before the loop does.
func TestLoopGivesWayToOurs(t *testing.T) {
	network, upstream := startRedis(t)
	r := startRelay(t, network, upstream, nil)
	l, err := newLoop()
	if err != nil {
		t.Fatal(err)
	}
	r.server.loops.once.Do(func() { r.server.loops.all = []*loop{l} })
	c := r.dial()
	turnUntil := func(what string, done func(s *Session) bool) {
		t.Helper()
		for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(100 * time.Microsecond) {
			if slices.ContainsFunc(r.server.all(), done) {
				return
			}
			if time.Now().After(deadline) {
				t.Fatal("no " + what)
			}
		}
	}
	c.send("PING\r\n")
	turnUntil("socket on the loop", func(s *Session) bool {
		l.turn()
		s.mu.Lock()
		up, _ := s.up.(*sock)
		s.mu.Unlock()
		return up != nil && s.st.received.Load() == 1 && up.waits() == gateWatched && s.client.(*sock).waits() == gateWatched
	})
	c.expect("+PONG\r\n")
	c.send("PING\r\nLOCK a\r\n")
	turnUntil("marker", func(s *Session) bool {
		armed := s.marker.armed.Load()
		if !armed && s.client.(*sock).waits() != gateWatched {
			return false // the pump is about to arm it
		}
		l.woke = false
		l.turn()
		met := armed && !s.marker.armed.Load()
		if met && !l.woke {
			t.Error("a pump was woken and the loop does not know")
		}
		return met
	})
	c.expect("+PONG\r\n$5\r\nown:a\r\n")
}
