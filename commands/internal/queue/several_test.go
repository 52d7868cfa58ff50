package queue

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"lockproxy/quorum"
	"lockproxy/stat"
)

// TestSeveralKeys: who waits for several keys keeps its place in all lines, and is woken by each.
// The clients after it wait, also for a key that is free.
func TestSeveralKeys(t *testing.T) {
	inHall(t, func(h *hall) {
		h.s.hold("x", quorum.Exclusive, 10*time.Second, "a")
		h.s.hold("y", quorum.Exclusive, 10*time.Second, "b")
		h.enter(guest{name: "a1", keys: []string{"a"}, hold: 100 * ms})
		h.enter(guest{name: "ab", keys: []string{"b", "a"}, hold: 100 * ms})
		h.enter(guest{name: "b1", keys: []string{"b"}, hold: 100 * ms})
		h.enter(guest{name: "bc", keys: []string{"c", "b"}, hold: 100 * ms})
		h.enter(guest{name: "c1", keys: []string{"c"}, hold: 100 * ms})
		time.Sleep(50 * ms)
		for key, want := range map[string]int{"a": 2, "b": 3, "c": 2, "d": 0} {
			if got := h.qs.Waiters(key); got != want {
				t.Errorf("%d wait for %s, want %d", got, key, want)
			}
		}
		if clients, keys := h.qs.Total(); clients != 5 || keys != 3 {
			t.Errorf("%d clients wait for %d keys, want 5 for 3", clients, keys)
		}
		first := []stat.Waiter{}
		for _, name := range []string{"ab", "b1", "bc"} {
			first = append(first, stat.Waiter{Owner: name, Mode: "exclusive", Since: 50 * ms})
		}
		want := []stat.Waiting{{Key: "b", Clients: 3, Longest: 50 * ms, First: first}}
		if got := h.qs.Longest(1); !reflect.DeepEqual(got, want) {
			t.Errorf("the longest queue is %v, want %v", got, want)
		}
		h.release(guest{name: "y", keys: []string{"b"}}, false) // its queue has no leader yet
		time.Sleep(48 * ms)
		h.release(guest{name: "x", keys: []string{"a"}}, false) // at 100.5ms
		h.wg.Wait()
		h.granted("a1", 101*ms, 103*ms)
		h.granted("ab", 202*ms, 206*ms)
		h.granted("b1", h.result("ab").at+100*ms, h.result("ab").at+104*ms)
		h.granted("bc", h.result("b1").at+100*ms, h.result("b1").at+104*ms)
		h.granted("c1", h.result("bc").at+100*ms, h.result("bc").at+104*ms)
	})
}

// TestSeveralKeysWoken: each of the keys wakes who waits for them, however it becomes free.
func TestSeveralKeysWoken(t *testing.T) {
	for _, last := range []string{"a", "b", "c"} {
		inHall(t, func(h *hall) {
			for _, key := range []string{"a", "b", "c"} {
				h.s.hold("x"+key, quorum.Exclusive, 10*time.Second, key)
			}
			h.enter(guest{name: "abc", keys: []string{"a", "b", "c"}})
			time.Sleep(400 * ms)
			if n := h.s.asked(); n != 2 {
				t.Errorf("asked %d times, want once before and once after it subscribed", n)
			}
			for _, key := range []string{"a", "b", "c"} {
				if key != last {
					h.release(guest{name: "x" + key, keys: []string{key}, foreign: true}, false)
				}
			}
			time.Sleep(400 * ms)
			h.release(guest{name: "x" + last, keys: []string{last}, foreign: true}, false)
			h.wg.Wait()
			h.granted("abc", 804*ms, 810*ms)
		})
	}
	inHall(t, func(h *hall) {
		h.s.hold("x", quorum.Exclusive, 700*ms, "b")
		h.enter(guest{name: "ab", keys: []string{"a", "b"}})
		h.wg.Wait()
		h.granted("ab", 700*ms, 705*ms)
	})
}

// TestSeveralKeysLeave: a client that gives up leaves all lines at once, and the next ones move
// up. The queue remembers keys that became free while it was first.
func TestSeveralKeysLeave(t *testing.T) {
	inHall(t, func(h *hall) {
		h.s.hold("x", quorum.Exclusive, 10*time.Second, "a")
		h.enter(guest{name: "b1", keys: []string{"b"}, hold: 50 * ms})
		h.enter(guest{name: "b2", keys: []string{"b"}})
		leave := h.enter(guest{name: "abc", keys: []string{"a", "b", "c"}})
		h.enter(guest{name: "c1", keys: []string{"c"}})
		h.enter(guest{name: "a1", keys: []string{"a"}})
		time.Sleep(300 * ms)
		h.release(guest{name: "x", keys: []string{"a"}}, false)
		time.Sleep(100 * ms)
		leave()
		left := time.Since(bubbleStart)
		h.wg.Wait()
		h.granted("a1", left+ms, left+2*ms) // a second one if who left was just asking
		h.granted("c1", left+ms, left+2*ms)
		if err := h.result("abc").err; err != ErrDisconnected {
			t.Errorf("who left got %v", err)
		}
	})
}

// TestSeveralKeysLimits: a client counts once for all its keys, and a key that is named twice is
// one.
func TestSeveralKeysLimits(t *testing.T) {
	inHall(t, func(h *hall) {
		h.qs.SetMax(2)
		h.s.hold("x", quorum.Exclusive, time.Hour, "a")
		h.enter(guest{name: "first", keys: []string{"a", "b", "c", "a"}})
		h.enter(guest{name: "second", keys: []string{"c", "b"}, timeout: 100 * ms})
		h.enter(guest{name: "third", keys: []string{"d"}})
		if got := h.result("third"); got.err != ErrFull {
			t.Errorf("the third got %v", got.err)
		}
		time.Sleep(200 * ms)
		if got := h.result("second"); got.err != ErrTimeout || got.at != 100*ms {
			t.Errorf("the second got %v at %v", got.err, got.at)
		}
		h.qs.Drain()
		h.wg.Wait()
		if got := h.result("first"); got.err != ErrDraining || got.at != 200*ms {
			t.Errorf("the first got %v at %v from the drain", got.err, got.at)
		}
	})
}

// TestSeveralKeysNoQuorum: other clients than the leader get the error, too, without masters.
// Without a timeout the wait ends after the longest ttl.
func TestSeveralKeysNoQuorum(t *testing.T) {
	inHall(t, func(h *hall) {
		h.s.err = &quorum.NoQuorumError{N: 5, Needed: 3}
		h.enter(guest{name: "ab", keys: []string{"a", "b"}})
		h.enter(guest{name: "cb", keys: []string{"c", "b"}, timeout: 300 * ms})
		h.enter(guest{name: "c", keys: []string{"c"}, timeout: 300 * ms})
		h.wg.Wait()
		for name, at := range map[string]time.Duration{"ab": time.Minute, "cb": 300 * ms} {
			got := h.result(name)
			if !errors.Is(got.err, quorum.ErrNoQuorum) || got.at < at || got.at > at+time.Second {
				t.Errorf("%s got %v at %v, want it at %v", name, got.err, got.at, at)
			}
		}
		if got := h.result("c"); got.err == nil { // no client asked for c alone before
			t.Error("the third got a lock")
		}
		if n := h.s.asked(); n > 100 {
			t.Errorf("asked %d times in a minute: the delay does not grow", n)
		}
	})
}

// TestSeveralKeysAskLittle: a thousand that wait for the same keys cost what one costs.
func TestSeveralKeysAskLittle(t *testing.T) {
	inHall(t, func(h *hall) {
		h.s.hold("x", quorum.Exclusive, 9500*ms, "b")
		all := names("c", 300)
		for i, name := range all {
			h.enter(guest{name: name, keys: []string{"b", []string{"a", "c"}[i%2]}, hold: 10 * ms})
		}
		time.Sleep(9 * time.Second)
		if n := h.s.asked(); n > 12 {
			t.Errorf("asked %d times in 9s, want about once a second", n)
		}
		h.wg.Wait()
		if n := h.s.asked(); n > 2*len(all)+20 {
			t.Errorf("asked %d times for %d grants", n, len(all))
		}
		for i, name := range all[1:] {
			if got, before := h.result(name).at, h.result(all[i]).at; got < before+10*ms {
				t.Errorf("%s got the lock at %v, the one before it at %v", name, got, before)
			}
		}
	})
}

// TestLongestWaitsFirst: operators see the keys with the longest waits first, then those with the
// most clients.
func TestLongestWaitsFirst(t *testing.T) {
	inHall(t, func(h *hall) {
		if got := h.qs.LongestWait(); got != 0 {
			t.Errorf("without clients the longest wait is %v", got)
		}
		all := names("key", 5)
		for i, key := range all {
			h.s.hold("x"+key, quorum.Exclusive, 10*time.Second, key)
			for j := range i + 1 {
				h.enter(guest{name: fmt.Sprint(key, "-", j), keys: []string{key}, timeout: 3 * time.Second})
			}
			time.Sleep(100 * ms)
		}
		for limit, want := range map[int][]string{
			1: {"key0000"}, 3: {"key0000", "key0001", "key0004"}, 4: {"key0000", "key0001", "key0004", "key0003"}, 9: all,
		} {
			var got []string
			for _, w := range h.qs.Longest(limit) {
				got = append(got, w.Key)
			}
			if !slices.Equal(got, want) {
				t.Errorf("of %d keys: got %q, want %q", limit, got, want)
			}
		}
		if got := h.qs.LongestWait(); got != 500*ms {
			t.Errorf("the longest wait is %v, want 500ms", got)
		}
	})
}
