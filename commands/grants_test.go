package commands

import (
	"bufio"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/quorum"
	"lockproxy/resp"
)

func TestAgeCountsFromEachGrant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGrants()
		g.granted("job", quorum.Token{Fence: 7}, quorum.Exclusive)
		time.Sleep(1500 * time.Millisecond)
		g.granted("job", quorum.Token{Fence: 8}, quorum.Exclusive)
		time.Sleep(time.Second)
		for fence, want := range map[uint64]time.Duration{7: 2500 * time.Millisecond, 8: time.Second, 9: 0} {
			if got := g.age("job", fence); got != want {
				t.Errorf("age of fence %d: %v, want %v", fence, got, want)
			}
		}
		if got := g.released("job", quorum.Token{Fence: 7}); got != 2500*time.Millisecond {
			t.Errorf("held for %v, want 2.5s", got)
		}
		if got := g.age("job", 7); got != 0 {
			t.Errorf("a released lock has the age %v", got)
		}
	})
}

// TestGrantsTogether: several holders with one fence have an age each, and an
// exclusive lock that becomes a shared one keeps its age.
func TestGrantsTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGrants()
		first, a, b := quorum.Token{Fence: 7, Secret: "first"}, quorum.Token{Fence: 7, Secret: "a"},
			quorum.Token{Fence: 7, Secret: "b"}
		g.granted("job", first, quorum.Exclusive)
		time.Sleep(time.Second)
		g.shared("job", first)
		g.granted("job", a, quorum.Shared)
		time.Sleep(time.Second)
		g.granted("job", b, quorum.Limited)
		time.Sleep(time.Second)
		if got := g.age("job", 7); got != 0 {
			t.Errorf("the masters show one fence for all, its age is %v", got)
		}
		for token, want := range map[quorum.Token]quorum.Mode{first: quorum.Shared, a: quorum.Shared, b: quorum.Limited,
			{Fence: 7}: quorum.Exclusive} {
			if got := g.mode("job", token); got != want {
				t.Errorf("%q is %v, want %v", token.Secret, got, want)
			}
		}
		for i, token := range []quorum.Token{b, a, first} {
			if got, want := g.released("job", token), time.Duration(i+1)*time.Second; got != want {
				t.Errorf("%s was held for %v, want %v", token.Secret, got, want)
			}
		}
	})
}

// TestGrantsUnderChurn: locks that come and go do not make those forgotten that stay.
func TestGrantsUnderChurn(t *testing.T) {
	g := newGrants()
	const stay = 200
	for i := range stay {
		g.granted(fmt.Sprint("stays", i), quorum.Token{Fence: uint64(i)}, quorum.Exclusive)
	}
	var wg sync.WaitGroup
	var missed atomic.Int64
	for w := range 4 {
		key := fmt.Sprint("goes", w) // an exclusive lock has its key for itself
		wg.Go(func() {
			for i := range 20_000 {
				token := quorum.Token{Fence: uint64(i)}
				g.granted(key, token, quorum.Exclusive)
				if g.released(key, token) == 0 {
					missed.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if n := missed.Load(); n > 80 { // of 80,000: two at once in one place
		t.Errorf("%d locks were forgotten while they were held", n)
	}
	lost := 0
	for i := range stay {
		if g.age(fmt.Sprint("stays", i), uint64(i)) == 0 {
			lost++
		}
	}
	if lost > stay/20 { // both places taken by others that stay
		t.Errorf("%d of %d locks were forgotten", lost, stay)
	}
}

// TestAgeIsShownUntilRelease: operators see how long ago a lock was granted through this proxy,
// until it is released.
func TestAgeIsShownUntilRelease(t *testing.T) {
	locker := &fakeLocker{held: true, info: quorum.Info{Key: "job", Held: 1, Fence: aToken.Fence}}
	service := New(Options{Locker: locker, Watcher: locker, Inspector: locker, Gate: &fakeGate{}, MaxTTL: time.Minute})
	c := serve(t, byHandler, service, locker, resp.Options{})
	r := bufio.NewReader(c)
	for _, step := range []struct {
		send string
		aged bool
	}{{"LOCKINFO other", false}, {"LOCK job 5s", true}, {"EXTEND job " + aToken.String() + " 5s", true},
		{"UNLOCK job " + aToken.String(), false}} {
		ask(t, c, r, strings.Fields(step.send)...)
		page, err := service.Locks(t.Context(), 0, "", 1)
		if locks := page.Locks; err != nil || len(locks) != 1 || (locks[0].Age > 0) != step.aged {
			t.Errorf("after %s: %v, %v; want an age: %v", step.send, locks, err, step.aged)
		}
	}
}
