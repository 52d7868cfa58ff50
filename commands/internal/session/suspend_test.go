package session

import (
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"lockproxy/quorum"
)

// sleepy runs f with a session lock of 30 s, granted at the start with a validity of 29.9 s, on a
// machine that f may suspend.
func suspendable(t *testing.T, f func(e *extender, o *fakeOwner, hs *Locks, suspend func(time.Duration))) {
	synctest.Test(t, func(t *testing.T) {
		e, o := &extender{took: 500 * time.Millisecond}, &fakeOwner{resp3: true}
		hs := New(e, func(string, string) {}, nil, time.Hour, 0, zap.NewNop())
		e.holds = hs
		var slept atomic.Int64
		hs.suspended = func() time.Duration { return 100*time.Hour + time.Duration(slept.Load()) }
		hs.Keep(o, []string{"job"}, quorum.Lease{Token: quorum.Token{Secret: strings.Repeat("ab", 20)},
			Validity: 29900 * time.Millisecond}, 30*time.Second)
		f(e, o, hs, func(d time.Duration) { slept.Add(int64(d)) })
		hs.Close()
	})
}

// TestWorkDueDuringSuspendHappensOnWaking: work that was due during a suspend happens within a
// second of waking, and not when Go's timers fire; later work happens on time. A lock whose
// validity has ended by then is not released, because its holder may have extended it through
// another proxy meanwhile.
func TestWorkDueDuringSuspendHappensOnWaking(t *testing.T) {
	for _, tt := range []struct {
		name     string
		suspend  time.Duration // after 2.5 s
		want     []string
		lostPush string
	}{
		{"none", 0, []string{"extend 30s at 10s", "extend 30s at 20s"}, ""},
		{"renewal nearer", 5 * time.Second, []string{"extend 30s at 5s", "extend 30s at 15s", "extend 30s at 25s"}, ""},
		{"renewal overdue", 15 * time.Second, []string{"extend 30s at 3s", "extend 30s at 5s", "extend 30s at 15s",
			"extend 30s at 25s"}, ""},
		{"validity ended", 28 * time.Second, nil, "at 3s"},
		{"longer than max-hold", 2 * time.Hour, nil, "at 3s"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			suspendable(t, func(e *extender, o *fakeOwner, hs *Locks, suspend func(time.Duration)) {
				time.Sleep(2500 * time.Millisecond)
				suspend(tt.suspend)
				time.Sleep(23 * time.Second)
				if got := e.log(); !slices.Equal(got, tt.want) {
					t.Errorf("%s: asked %v, want %v", tt.name, got, tt.want)
				}
				if got := strings.Join(o.pushes(), "; "); (got == "") != (tt.lostPush == "") ||
					!strings.HasSuffix(got, tt.lostPush) || len(o.pushes()) > 1 {
					t.Errorf("%s: pushed %q, want %q", tt.name, got, tt.lostPush)
				}
			})
		})
	}
}

// TestSuspendDuringRenewal: there is one renewal at a time, and one that fails after waking finds
// that the validity has ended. It does not release the lock.
func TestSuspendDuringRenewal(t *testing.T) {
	for _, fails := range []bool{false, true} {
		suspendable(t, func(e *extender, o *fakeOwner, hs *Locks, suspend func(time.Duration)) {
			e.mu.Lock()
			e.took = 2500 * time.Millisecond // from 10 s to 12.5 s
			e.mu.Unlock()
			if fails {
				e.fail(quorum.ErrLate)
			}
			time.Sleep(10500 * time.Millisecond)
			suspend(time.Minute)
			time.Sleep(15 * time.Second)
			got, pushed := e.log(), o.pushes()
			if fails && (!slices.Equal(got, []string{"extend 30s at 10s"}) || len(pushed) != 1 ||
				!strings.HasSuffix(pushed[0], "at 12.5s")) {
				t.Errorf("asked %v, pushed %v", got, pushed)
			}
			if !fails && (!slices.Equal(got, []string{"extend 30s at 10s", "extend 30s at 20s"}) || len(pushed) != 0) {
				t.Errorf("asked %v, pushed %v", got, pushed)
			}
		})
	}
}

// TestSuspendExtended: what EXTEND promised is counted on the same clock.
func TestSuspendExtended(t *testing.T) {
	suspendable(t, func(e *extender, o *fakeOwner, hs *Locks, suspend func(time.Duration)) {
		e.took = 0
		e.fail(quorum.ErrLate)
		hs.Extended("job", nil, strings.Repeat("ab", 20), time.Minute)
		time.Sleep(70 * time.Second)
		if got := o.pushes(); len(got) != 1 || !strings.HasSuffix(got[0], "at 59.95s") {
			t.Errorf("pushed %v, want one at 59.95s", got)
		}
	})
}

// TestSuspendCheckEnds: without locks the check ends, and the next lock starts it again.
func TestSuspendCheckEnds(t *testing.T) {
	suspendable(t, func(e *extender, o *fakeOwner, hs *Locks, suspend func(time.Duration)) {
		secret := strings.Repeat("ab", 20)
		hs.Forget("job", nil, secret)
		time.Sleep(time.Minute)
		hs.mu.Lock()
		if hs.check.Stop() {
			t.Error("the check still runs")
		}
		hs.mu.Unlock()
		hs.Keep(o, []string{"job"}, quorum.Lease{Token: quorum.Token{Secret: secret}, Validity: 29900 * time.Millisecond},
			30*time.Second)
		suspend(time.Minute)
		time.Sleep(5 * time.Second)
		if got := o.pushes(); len(got) != 1 || !strings.HasSuffix(got[0], "at 1m1s") {
			t.Errorf("pushed %v, want one at 1m1s", got)
		}
	})
}

// TestClocksAgreeWhileAwake: the real clocks go forward together while the machine is awake.
func TestClocksAgreeWhileAwake(t *testing.T) {
	if before, after := quorum.Suspended(), quorum.Suspended(); before < 0 || after-before > time.Second {
		t.Errorf("suspended for %v, then %v", before, after)
	}
}
