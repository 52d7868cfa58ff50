package session

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"lockproxy/quorum"
	"lockproxy/resp"
)

// keepAgain makes the lock of heldKeys that of o, like EXTEND ... SESSION after 500 ms.
func keepAgain(o *fakeOwner, hs *Locks, keys []string, validity time.Duration) {
	time.Sleep(500 * time.Millisecond)
	lease := quorum.Lease{Token: quorum.Token{Fence: 7, Secret: keysSecret}, Validity: validity}
	hs.Keep(o, keys, lease, 6*time.Second)
}

// TestTakenOver: a lock moves to another connection, with the ttl named there. The end of the
// first connection has no effect on it. max-hold begins anew.
func TestTakenOver(t *testing.T) {
	heldKeys(t, func(e *extender, o *fakeOwner, hs *Locks, reported func() []string) {
		other := &fakeOwner{resp3: true}
		keepAgain(other, hs, []string{"c", "b", "a"}, 5900*time.Millisecond)
		o.onEnd(resp.EndClient)
		time.Sleep(9700 * time.Millisecond) // to 10.2 s, when the hold of o would have ended
		other.onEnd(resp.EndClient)
		want := []string{"of c and b and a 2.5s", "extend 6s at 2.5s", "of c and b and a 4.5s", "extend 6s at 4.5s",
			"of c and b and a 6.5s", "extend 6s at 6.5s", "of c and b and a 8.5s", "extend 6s at 8.5s",
			"release c at 10.2s", "release b at 10.2s", "release a at 10.2s"}
		if got := e.log(); !slices.Equal(got, want) || hs.Count() != 0 {
			t.Errorf("asked %v, want %v; %d left", got, want, hs.Count())
		}
		if len(o.pushes())+len(other.pushes()) != 0 || !slices.Equal(reported(), []string{"released c b a"}) {
			t.Errorf("pushed %v and %v, reported %v", o.pushes(), other.pushes(), reported())
		}
	})
}

// TestTakenOverMeanwhile: the answer to a renewal for the first connection is ignored.
func TestTakenOverMeanwhile(t *testing.T) {
	heldKeys(t, func(e *extender, o *fakeOwner, hs *Locks, _ func() []string) {
		time.Sleep(505 * time.Millisecond)
		e.fail(quorum.ErrLost)
		keepAgain(o, hs, []string{"a", "b", "c"}, 5900*time.Millisecond)
		time.Sleep(time.Second)
		if len(o.pushes()) != 0 || hs.Count() != 1 {
			t.Errorf("pushed %v, %d held", o.pushes(), hs.Count())
		}
	})
}

// TestSomeTakenOver: keys that EXTEND did not name stay with the lock, and it did not extend them.
// Nor does a shorter EXTEND take anything away.
func TestSomeTakenOver(t *testing.T) {
	for _, tt := range []struct {
		keys     []string
		validity time.Duration
		lost     string
	}{
		{[]string{"a", "b"}, 20 * time.Second, "2.85s"},
		{[]string{"a", "b", "c"}, time.Second, "2.85s"},
		{[]string{"a", "b", "c"}, 20 * time.Second, "20.45s"},
	} {
		t.Run(fmt.Sprint(tt.keys, tt.validity), func(t *testing.T) {
			heldKeys(t, func(e *extender, o *fakeOwner, hs *Locks, _ func() []string) {
				e.fail(quorum.ErrLate)
				other := &fakeOwner{resp3: true}
				keepAgain(other, hs, tt.keys, tt.validity)
				time.Sleep(time.Minute)
				if keys, at := pushed(other); len(keys) != 3 || at != tt.lost || len(o.pushes()) != 0 {
					t.Errorf("%v: pushed %v at %s, want all at %s; the first one got %v", tt.keys, keys, at, tt.lost, o.pushes())
				}
			})
		})
	}
}
