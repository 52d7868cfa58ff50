package queue

import (
	"fmt"
	"testing"
	"time"

	"lockproxy/quorum"
)

// attempts returns those of one owner.
func (s *simMasters) attempts(owner string) (of []attempt) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.log {
		if a.owner == owner {
			of = append(of, a)
		}
	}
	return of
}

// TestSharedTogether: readers in a row get the lock together, and do not overtake the writer after
// them.
func TestSharedTogether(t *testing.T) {
	inHall(t, func(h *hall) {
		h.s.hold("first", quorum.Exclusive, 10*time.Second, "job")
		for _, name := range []string{"r1", "r2", "r3"} {
			h.enter(guest{name: name, mode: quorum.Shared, hold: 100 * ms})
		}
		h.enter(guest{name: "w", hold: 100 * ms})
		h.enter(guest{name: "r4", mode: quorum.Shared, hold: 100 * ms})
		h.enter(guest{name: "r5", mode: quorum.Shared, hold: 100 * ms})
		time.Sleep(500 * ms)
		h.release(guest{name: "first", keys: []string{"job"}}, false) // at 500.5ms, with a message at 502ms
		h.wg.Wait()
		h.granted("r1", 501*ms, 502*ms)
		h.granted("r2", h.result("r1").at+ms, h.result("r1").at+ms)
		h.granted("r3", h.result("r2").at, h.result("r2").at)
		h.granted("w", 602*ms, 605*ms)
		h.granted("r4", h.result("w").at+100*ms, h.result("w").at+103*ms)
		h.granted("r5", h.result("r4").at+ms, h.result("r4").at+ms)
		for _, name := range []string{"r2", "r3", "r5"} {
			if n := len(h.s.attempts(name)); n != 1 {
				t.Errorf("%s asked %d times, want once", name, n)
			}
		}
	})
}

// TestSharedRefused: a reader that asks beside others and is refused keeps its place. It leads as
// soon as those in front have the lock, and asks again.
func TestSharedRefused(t *testing.T) {
	inHall(t, func(h *hall) {
		h.s.hold("first", quorum.Exclusive, 100*ms, "job")
		h.s.refuse["r3"], h.s.refuse["r4"] = 2, 1 // r3 also when it leads
		h.s.slow["r2"] = 2 * ms
		for i := range 5 {
			h.enter(guest{name: fmt.Sprint("r", i+1), mode: quorum.Shared, hold: 500 * ms})
		}
		h.enter(guest{name: "w"})
		h.wg.Wait()
		r1 := h.result("r1").at
		h.granted("r1", 101*ms, 105*ms)
		h.granted("r2", r1+3*ms, r1+3*ms)
		h.granted("r5", r1+ms, r1+ms)
		h.granted("r3", r1+5*ms, r1+50*ms) // it tries again soon, because the lock ran out
		r3 := h.result("r3").at
		h.granted("r4", r3+ms, r3+ms)
		h.granted("w", r3+501*ms, r3+506*ms)
	})
}

// TestSharedAsksLittle: a thousand readers ask no more than one while the lock is held, and once
// each when it is shared; not all at a time.
func TestSharedAsksLittle(t *testing.T) {
	inHall(t, func(h *hall) {
		h.s.hold("first", quorum.Exclusive, 10*time.Second, "job")
		leave := h.enter(guest{name: "leaves", mode: quorum.Shared})
		readers := names("r", 1000)
		for _, name := range readers {
			h.enter(guest{name: name, mode: quorum.Shared, hold: 100 * ms})
		}
		time.Sleep(9 * time.Second)
		if n := h.s.asked(); n > 12 {
			t.Errorf("asked %d times in 9s, want about once a second", n)
		}
		before := h.s.asked()
		leave()
		time.Sleep(5 * ms)
		if n := h.s.asked() - before; n > 1 {
			t.Errorf("%d asked as the one before them left", n)
		}
		h.release(guest{name: "first", keys: []string{"job"}}, false)
		before = h.s.asked()
		h.wg.Wait()
		for _, name := range readers {
			h.granted(name, 9*time.Second+5*ms, 9*time.Second+11*ms)
		}
		if n := h.s.asked() - before; n > 1000+3 || h.s.mostAsk > maxInvited {
			t.Errorf("asked %d times, and %d at a time", n, h.s.mostAsk)
		}
	})
}

// TestWriterSaysItWaits: a leader announces that it waits as soon as it has been refused, or came
// after others. So new readers of other proxies let a writer in. It asks at once when the readers
// before it have the lock; after an exclusive lock it has no need to.
func TestWriterSaysItWaits(t *testing.T) {
	inHall(t, func(h *hall) {
		h.s.hold("first", quorum.Exclusive, 50*ms, "job")
		h.enter(guest{name: "r1", mode: quorum.Shared, hold: 700 * ms})
		h.enter(guest{name: "r2", mode: quorum.Shared, hold: 700 * ms})
		h.enter(guest{name: "r3", mode: quorum.Shared, hold: 700 * ms})
		h.enter(guest{name: "w1", hold: 100 * ms})
		h.enter(guest{name: "w2", hold: 100 * ms})
		h.wg.Wait()
		for _, tt := range []struct {
			name string
			want []bool // Waits
			at   time.Duration
		}{
			{"r1", []bool{false, true}, ms / 2},
			{"r2", []bool{true}, h.result("r1").at + ms/2},
			{"r3", []bool{false}, h.result("r1").at + ms/2}, // beside r2, which leads
			{"w1", []bool{true}, h.result("r3").at + ms/2},
			{"w2", []bool{true}, h.result("w2").at - ms/2},
		} {
			got := h.s.attempts(tt.name)
			if got[0].at != tt.at {
				t.Errorf("%s asked first at %v, want %v", tt.name, got[0].at, tt.at)
			}
			for i, a := range got {
				if want := tt.want[min(i, len(tt.want)-1)]; a.waits > 0 != want {
					t.Errorf("%s, attempt %d: waits %v, want %v", tt.name, i, a.waits, want)
				}
			}
		}
	})
}

// TestHowLongItWaits: readers are kept out for no longer than the writer waits.
func TestHowLongItWaits(t *testing.T) {
	inHall(t, func(h *hall) {
		h.s.hold("r", quorum.Shared, 10*time.Second, "job")
		h.enter(guest{name: "w1", timeout: 2 * time.Second})
		time.Sleep(time.Second)
		h.enter(guest{name: "w2"})
		h.wg.Wait()
		asked := h.s.attempts("w1")
		for _, a := range asked[1:] {
			if left := 2*time.Second - a.at; a.waits < left || a.waits > left+ms {
				t.Errorf("at %v w1 said that it waits for %v", a.at, a.waits)
			}
		}
		if n := len(asked); n < 3 {
			t.Errorf("w1 asked %d times", n)
		}
		for _, a := range h.s.attempts("w2") {
			if a.waits != never {
				t.Errorf("at %v w2 said that it waits for %v", a.at, a.waits)
			}
		}
	})
}

// TestSharingWriterLetsReadersIn: when a writer shares its lock the readers after it get theirs.
// When it releases its share under the same name, a writer gets the lock.
func TestSharingWriterLetsReadersIn(t *testing.T) {
	for _, foreign := range []bool{false, true} {
		inHall(t, func(h *hall) {
			// it shares at 201.5ms and is done at 603.5ms
			h.enter(guest{name: "w1", hold: 400 * ms, share: true, foreign: foreign})
			h.enter(guest{name: "r1", mode: quorum.Shared, hold: 100 * ms})
			h.enter(guest{name: "r2", mode: quorum.Shared, hold: 100 * ms})
			h.enter(guest{name: "w2", hold: 100 * ms})
			h.wg.Wait()
			h.granted("r1", 202*ms, 206*ms)
			h.granted("r2", h.result("r1").at+ms, h.result("r1").at+ms)
			h.granted("w2", 603*ms, 607*ms)
		})
	}
}

// TestSecondReleaseHere: a lock that is shared first and released then wakes the leader twice,
// also without a message of a master.
func TestSecondReleaseHere(t *testing.T) {
	inHall(t, func(h *hall) {
		h.s.hold("x", quorum.Exclusive, 10*time.Second, "job")
		h.enter(guest{name: "w", ttl: time.Second})
		time.Sleep(100 * ms)
		h.s.end("job", "x", true)
		h.qs.Released("job", "x")
		time.Sleep(500 * ms)
		h.s.end("job", "x", false)
		h.qs.Released("job", "x")
		h.wg.Wait()
		h.granted("w", 600*ms, 602*ms)
	})
}

// TestSharedYield: writers pause as often with readers between them as without. Readers do not
// pause.
func TestSharedYield(t *testing.T) {
	inHall(t, func(h *hall) {
		const hold = 10 * ms
		var all []string
		for i := range 2*maxHandOvers + 4 {
			for _, kind := range []string{"w", "r", "s"} {
				g := guest{name: fmt.Sprint(kind, i), hold: hold}
				if kind != "w" {
					g.mode = quorum.Shared
				}
				h.enter(g)
				all = append(all, g.name)
			}
		}
		h.wg.Wait()
		pauses := 0
		for i := range all[1:] {
			took := h.result(all[i+1]).at - h.result(all[i]).at
			switch {
			case took < hold+peerPause/2:
			case all[i+1][0] == 'w':
				pauses++
			default:
				t.Errorf("%s got the lock %v after the writer", all[i+1], took)
			}
		}
		if pauses != 2 {
			t.Errorf("%d pauses in %d hand-overs, want 2", pauses, len(all)/3)
		}
	})
}
