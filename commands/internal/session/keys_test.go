package session

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"lockproxy/quorum"
	"lockproxy/resp"
	"lockproxy/stat"
)

var keysSecret = strings.Repeat("cd", 20)

// heldKeys runs f with a session lock of a, b and c for 3 s, granted at the start with a validity
// of 2.9 s.
func heldKeys(t *testing.T, f func(e *extender, o *fakeOwner, hs *Locks, reported func() []string)) {
	synctest.Test(t, func(t *testing.T) {
		e, o := &extender{took: 10 * time.Millisecond}, &fakeOwner{resp3: true}
		var all []string
		report := func(d stat.Event) {
			all = append(all, string(d.Outcome)+" "+strings.Join(append([]string{d.Key}, d.Keys...), " "))
		}
		hs := New(e, func(string, string) {}, report, 10*time.Second, 0, zap.NewNop())
		e.holds = hs
		hs.suspended = func() time.Duration { return 0 }
		lease := quorum.Lease{Token: quorum.Token{Fence: 7, Secret: keysSecret}, Validity: 2900 * time.Millisecond}
		hs.Keep(o, []string{"a", "b", "c"}, lease, 3*time.Second)
		f(e, o, hs, func() []string { return all })
		hs.Close()
	})
}

// pushed are the keys that the push messages name, and when the last one came.
func pushed(o *fakeOwner) (keys []string, at string) {
	for _, p := range o.pushes() {
		for _, key := range []string{"a", "b", "c"} {
			if strings.Contains(p, `$1\r\n`+key+`\r\n`) {
				keys = append(keys, key)
			}
		}
		_, at, _ = strings.Cut(p, " at ")
	}
	return keys, at
}

// TestKeysRenewed: one renewal carries all keys, and the end of the connection releases each.
func TestKeysRenewed(t *testing.T) {
	heldKeys(t, func(e *extender, o *fakeOwner, hs *Locks, reported func() []string) {
		time.Sleep(1500 * time.Millisecond)
		o.onEnd(resp.EndClient)
		want := []string{"of a and b and c 1s", "extend 3s at 1s", "release a at 1.5s", "release b at 1.5s",
			"release c at 1.5s"}
		if got := e.log(); !slices.Equal(got, want) || hs.Count() != 0 ||
			!slices.Equal(reported(), []string{"released a b c"}) {
			t.Errorf("asked %v, want %v; reported %v", got, want, reported())
		}
	})
}

// TestKeysLost: the holder gets one push for each key.
func TestKeysLost(t *testing.T) {
	heldKeys(t, func(e *extender, o *fakeOwner, hs *Locks, reported func() []string) {
		e.fail(quorum.ErrLost)
		time.Sleep(1500 * time.Millisecond)
		if keys, at := pushed(o); !slices.Equal(keys, []string{"a", "b", "c"}) || at != "1.01s" ||
			!slices.Equal(reported(), []string{"lost a b c"}) {
			t.Errorf("pushed %v at %s, reported %v", keys, at, reported())
		}
	})
}

// TestSomeKeysUnlocked: other keys are no longer renewed, and their holder learns when they end.
// Until then the end of the connection releases them.
func TestSomeKeysUnlocked(t *testing.T) {
	for _, ends := range []bool{false, true} {
		heldKeys(t, func(e *extender, o *fakeOwner, hs *Locks, reported func() []string) {
			time.Sleep(1500 * time.Millisecond)
			hs.Forget("b", []string{"x"}, keysSecret)
			hs.Extended("a", []string{"b", "c"}, keysSecret, 0) // no effect
			if ends {
				o.onEnd(resp.EndClient)
			}
			time.Sleep(time.Minute)
			asked, want := e.log(), []string{"of a and b and c 1s", "extend 3s at 1s"}
			keys, at := pushed(o)
			if ends {
				want = append(want, "release a at 1.5s", "release c at 1.5s")
			} else if !slices.Equal(keys, []string{"a", "c"}) || at != "3.85s" {
				t.Errorf("pushed %v at %s, want a and c at 1.01s + 2.89s - 50ms", keys, at)
			}
			if !slices.Equal(asked, want) || hs.Count() != 0 {
				t.Errorf("ended by the client %v: asked %v, want %v; %d left", ends, asked, want, hs.Count())
			}
		})
	}
}

// TestSomeKeysUnlockedMeanwhile: an UNLOCK of some keys gives up a renewal that runs. It would
// find a key lost, and the others would fade.
func TestSomeKeysUnlockedMeanwhile(t *testing.T) {
	heldKeys(t, func(e *extender, o *fakeOwner, hs *Locks, _ func() []string) {
		time.Sleep(1005 * time.Millisecond)
		hs.Forget("a", nil, keysSecret)
		time.Sleep(time.Minute)
		keys, at := pushed(o)
		if asked := e.log(); len(asked) != 2 || !slices.Equal(keys, []string{"b", "c"}) || at != "2.85s" || hs.Count() != 0 {
			t.Errorf("asked %v, pushed %v at %s, %d left", asked, keys, at, hs.Count())
		}
	})
}

// TestKeysExtended: EXTEND counts for a session lock if it names all remaining keys.
func TestKeysExtended(t *testing.T) {
	for _, more := range [][]string{{"b"}, {"c", "b"}} {
		heldKeys(t, func(e *extender, o *fakeOwner, hs *Locks, _ func() []string) {
			hs.Extended("a", more, keysSecret, 20*time.Second)
			e.fail(quorum.ErrLate)
			time.Sleep(time.Minute)
			_, at := pushed(o)
			if want := map[int]string{1: "2.85s", 2: "19.95s"}[len(more)]; at != want {
				t.Errorf("EXTEND of a and %v: lost at %s, want %s", more, at, want)
			}
		})
	}
}
