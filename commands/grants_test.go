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

func TestGrants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGrants()
		g.granted("job", 7)
		time.Sleep(1500 * time.Millisecond)
		g.granted("job", 8)
		time.Sleep(time.Second)
		for fence, want := range map[uint64]time.Duration{7: 2500 * time.Millisecond, 8: time.Second, 9: 0} {
			if got := g.age("job", fence); got != want {
				t.Errorf("age of fence %d: %v, want %v", fence, got, want)
			}
		}
		if got := g.released("job", 7); got != 2500*time.Millisecond {
			t.Errorf("held for %v, want 2.5s", got)
		}
		if got := g.age("job", 7); got != 0 {
			t.Errorf("a released lock has the age %v", got)
		}
	})
}

// TestGrantsUnderChurn: locks that come and go do not make those forgotten that stay.
func TestGrantsUnderChurn(t *testing.T) {
	g := newGrants()
	const stay = 200
	for i := range stay {
		g.granted(fmt.Sprint("stays", i), uint64(i))
	}
	var wg sync.WaitGroup
	var missed atomic.Int64
	for w := range 4 {
		wg.Go(func() {
			for i := range 20_000 {
				g.granted("goes", uint64(w*100_000+i))
				if g.released("goes", uint64(w*100_000+i)) == 0 {
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

// TestAge: operators see how long ago a lock was granted through this proxy, until it is released.
func TestAge(t *testing.T) {
	locker := &fakeLocker{held: true, info: quorum.Info{Key: "job", Held: 1, Fence: aToken.Fence}}
	service := New(Options{Locker: locker, Gate: &fakeGate{}, MaxTTL: time.Minute})
	c := serve(t, byHandler, service, locker, resp.Options{})
	r := bufio.NewReader(c)
	for _, step := range []struct {
		send string
		aged bool
	}{{"LOCKINFO other", false}, {"LOCK job 5s", true}, {"EXTEND job " + aToken.String() + " 5s", true}, {"UNLOCK job " + aToken.String(), false}} {
		ask(t, c, r, strings.Fields(step.send)...)
		if _, locks, err := service.Locks(t.Context(), 0, "", 1); err != nil || len(locks) != 1 || (locks[0].Age > 0) != step.aged {
			t.Errorf("after %s: %v, %v; want an age: %v", step.send, locks, err, step.aged)
		}
	}
}
