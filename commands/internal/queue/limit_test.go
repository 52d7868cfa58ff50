package queue

import (
	"fmt"
	"testing"
	"time"

	"lockproxy/quorum"
)

// TestLimitInUse: while clients wait nearly all slots are in use.
func TestLimitInUse(t *testing.T) {
	for _, foreign := range []bool{false, true} {
		inHall(t, func(h *hall) {
			const hold = 150 * ms
			for _, name := range names("c", 100) {
				h.enter(guest{name: name, mode: quorum.Limited, limit: 10, hold: hold, foreign: foreign})
			}
			h.wg.Wait()
			var last time.Duration
			for i, name := range names("c", 100) {
				got := h.result(name)
				if got.err != nil || got.at < last {
					t.Errorf("%s got %v at %v, the one before it at %v", name, got.err, got.at, last)
				}
				if last = got.at; i == 99 && got.at > 9*hold*100/95 {
					t.Errorf("foreign %v: 90 clients kept ten slots for %v, want %v at most",
						foreign, got.at, 9*hold*100/95)
				}
			}
			if n := h.s.asked(); n > 100*6 {
				t.Errorf("foreign %v: asked %d times for 100 grants", foreign, n)
			}
		})
	}
}

// TestLimitTwoReleases: several slots become free while the leader asks. All that fit get in.
func TestLimitTwoReleases(t *testing.T) {
	for _, first := range []time.Duration{0, ms / 3, 2 * ms / 3} {
		for _, second := range []time.Duration{0, ms / 3, 2 * ms / 3, 3 * ms} {
			inHall(t, func(h *hall) {
				for i := range 3 {
					h.s.hold(fmt.Sprint("x", i), quorum.Limited, 30*time.Second, "job")
				}
				for i := range 3 {
					h.enter(guest{name: fmt.Sprint("c", i), mode: quorum.Limited, limit: 3, ttl: 30 * time.Second})
				}
				leave := h.enter(guest{name: "w"})
				time.Sleep(100 * ms)
				h.qs.Wake("job") // the leader asks until 101ms
				// one master sends early, the third makes the majority, two are late
				h.s.release("job", "x0", false, first, first+ms, first+2*ms, first+9*ms, first+9*ms)
				h.s.release("job", "x1", false, second, second+3*ms, second+4*ms, second+9*ms, second+9*ms)
				time.Sleep(200 * ms)
				leave()
				h.granted("c0", 102*ms, 100*ms+first+2*ms+3*ms)
				h.granted("c1", 103*ms, 100*ms+second+4*ms+3*ms)
				if got := h.result("c2"); got.at != 0 {
					t.Errorf("c2 got %v at %v", got.err, got.at)
				}
				h.s.release("job", "x2", false, 0, 0, 0)
				h.wg.Wait()
				h.granted("c2", 300*ms, 303*ms)
			})
		}
	}
}

// TestLimitRunsOut: slots that are never released are taken when they run out: a rate limit.
func TestLimitRunsOut(t *testing.T) {
	inHall(t, func(h *hall) {
		for _, name := range names("c", 20) {
			h.enter(guest{name: name, mode: quorum.Limited, limit: 5, ttl: time.Second})
		}
		h.wg.Wait()
		for i, name := range names("c", 20) {
			at := time.Duration(i/5) * time.Second
			h.granted(name, at, at+30*ms)
		}
	})
}

// TestLimitOtherModes: a client that waits in another mode waits until all slots are free.
func TestLimitOtherModes(t *testing.T) {
	inHall(t, func(h *hall) {
		h.enter(guest{name: "c1", mode: quorum.Limited, limit: 2, hold: 300 * ms})
		h.enter(guest{name: "c2", mode: quorum.Limited, limit: 2, hold: 100 * ms})
		h.enter(guest{name: "r", mode: quorum.Shared, hold: 100 * ms})
		h.enter(guest{name: "c3", mode: quorum.Limited, limit: 2, hold: 100 * ms})
		h.wg.Wait()
		h.granted("c2", ms, 2*ms)
		h.granted("r", 301*ms, 306*ms)
		h.granted("c3", h.result("r").at+100*ms, h.result("r").at+105*ms)
		if got := h.s.attempts("r"); got[0].waits == 0 || got[0].at > 4*ms {
			t.Errorf("the reader asked first at %v, and said that it waits: %v", got[0].at, got[0].waits)
		}
	})
}

// TestLimitYieldsToPeers: with two slots a row is twice as long.
func TestLimitYieldsToPeers(t *testing.T) {
	inHall(t, func(h *hall) {
		const hold = 100 * ms
		all := names("c", 2+4*maxHandOvers+maxHandOvers/2)
		for i, name := range all {
			h.enter(guest{name: name, mode: quorum.Limited, limit: 2, hold: hold})
			if i == 0 {
				time.Sleep(hold / 2) // so that the slots become free in turn
			}
		}
		h.wg.Wait()
		pauses := 0
		for i := 2; i < len(all); i++ {
			if h.result(all[i]).at-h.result(all[i-2]).at >= hold+peerPause/2+ms {
				pauses++
			}
		}
		if pauses != 2 {
			t.Errorf("%d pauses in %d hand-overs, want 2", pauses, len(all)-2)
		}
	})
}
