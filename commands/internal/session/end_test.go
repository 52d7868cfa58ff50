package session

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/quorum"
	"lockproxy/resp"
)

// TestDrainedLocks: from the drain on no lock is renewed, a holder that speaks RESP3 gets one push
// at once, and the lock is left to run out unless the client itself releases it.
func TestDrainedLocks(t *testing.T) {
	for _, tt := range []struct {
		name  string
		resp3 bool
		end   resp.End
		want  []string
	}{
		{"the proxy ends the connection", true, resp.EndProxy, []string{"extend 3s at 1s"}},
		{"QUIT", true, resp.EndQuit, []string{"extend 3s at 1s", "release job at 1.7s"}},
		{"RESP2", false, resp.EndProxy, []string{"extend 3s at 1s"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			held(t, 0, func(e *extender, o *fakeOwner, hs *Locks, _ func() []string) {
				o.resp3 = tt.resp3
				time.Sleep(1500 * time.Millisecond)
				hs.Drain()
				if got := o.pushes(); (len(got) == 1 && strings.HasSuffix(got[0], "at 1.5s")) != tt.resp3 {
					t.Errorf("%s: pushed %v", tt.name, got)
				}
				time.Sleep(200 * time.Millisecond)
				o.onEnd(tt.end)
				time.Sleep(time.Minute)
				if got := e.log(); !slices.Equal(got, tt.want) || hs.Count() != 0 || len(o.pushes()) > 1 {
					t.Errorf("%s: asked %v, want %v; %d left, pushed %v", tt.name, got, tt.want, hs.Count(), o.pushes())
				}
			})
		})
	}
}

// TestDrainDuringRenewal: the renewal that is under way is the last one.
func TestDrainDuringRenewal(t *testing.T) {
	held(t, 0, func(e *extender, _ *fakeOwner, hs *Locks, _ func() []string) {
		time.Sleep(1005 * time.Millisecond)
		hs.Drain()
		time.Sleep(time.Minute)
		if got := e.log(); !slices.Equal(got, []string{"extend 3s at 1s"}) {
			t.Errorf("asked %v after a drain at 1.005s", got)
		}
	})
}

// TestKeptWhileDraining: a lock that is granted while the proxy drains is not renewed either. Its
// holder gets a push when it is about to run out.
func TestKeptWhileDraining(t *testing.T) {
	held(t, 0, func(e *extender, o *fakeOwner, hs *Locks, _ func() []string) {
		hs.Drain()
		other := &fakeOwner{resp3: true}
		hs.Keep(other, []string{"other"}, leaseOf("cd"), 3*time.Second)
		time.Sleep(time.Minute)
		if got := other.pushes(); len(got) != 1 || !strings.HasSuffix(got[0], "at 2.85s") || len(o.pushes()) != 1 {
			t.Errorf("pushed %v, want once at 2.85s; the one from before got %v", got, o.pushes())
		}
		if len(e.log()) != 0 {
			t.Errorf("asked %v after the drain", e.log())
		}
	})
}

// mute is a holder that does not read.
type mute struct {
	fakeOwner
	read chan struct{}
}

func (m *mute) Push([]byte) error { <-m.read; return nil }

// TestDrainWaitsForNobodyLong: a holder that does not read keeps the drain half a second.
func TestDrainWaitsForNobodyLong(t *testing.T) {
	held(t, 0, func(_ *extender, _ *fakeOwner, hs *Locks, _ func() []string) {
		m := &mute{fakeOwner{resp3: true}, make(chan struct{})}
		hs.Keep(m, []string{"other"}, leaseOf("cd"), 3*time.Second)
		hs.Drain()
		if took := time.Since(bubbleBegan); took != pushTimeout {
			t.Errorf("the drain took %v, want %v", took, pushTimeout)
		}
		close(m.read)
		synctest.Wait()
	})
}

// TestChangedLocks: a new session-max-hold is that of locks held already, too, and a new
// session-lock-delay that of the next end.
func TestChangedLocks(t *testing.T) {
	held(t, 0, func(e *extender, o *fakeOwner, hs *Locks, _ func() []string) {
		hs.Change(2*time.Second, 20*time.Second)
		time.Sleep(1500 * time.Millisecond)
		o.onEnd(resp.EndClient)
		time.Sleep(time.Minute)
		if want := []string{"extend 3s at 1s", "extend 20s at 1.5s", "release job at 21.51s"}; !slices.Equal(e.log(), want) {
			t.Errorf("asked %v, want %v", e.log(), want)
		}
	})
	held(t, 0, func(e *extender, o *fakeOwner, hs *Locks, _ func() []string) {
		hs.Change(1500*time.Millisecond, 0)
		time.Sleep(time.Minute)
		if got := e.log(); len(got) != 1 || len(o.pushes()) != 1 {
			t.Errorf("asked %v, pushed %v, want one renewal and the loss", got, o.pushes())
		}
	})
}

// leaseOf is a lease with a validity of 2.9 s and a secret of so many times two digits.
func leaseOf(digits string) quorum.Lease {
	return quorum.Lease{Token: quorum.Token{Fence: 7, Secret: strings.Repeat(digits, 20)},
		Validity: 2900 * time.Millisecond}
}
