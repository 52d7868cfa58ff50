package session

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"lockproxy/quorum"
	"lockproxy/resp"
)

var bubbleBegan = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// sinceBegan returns the time since then without what untilTimer adds.
func sinceBegan() time.Duration { return time.Since(bubbleBegan).Truncate(time.Microsecond) }

// extender answers renewals in virtual time, and notes when it was asked what.
type extender struct {
	mu    sync.Mutex
	took  time.Duration
	err   error
	asked []string
	holds *Locks // whose mutex must be free whenever the masters are asked
}

func (e *extender) note(what string) {
	e.holds.Count()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.asked = append(e.asked, fmt.Sprintf("%s %v", what, sinceBegan()))
}

func (e *extender) ExtendAsync(ctx context.Context, r quorum.ExtendRequest, done func(time.Duration, error)) {
	go func() { done(e.extend(ctx, append([]string{r.Key}, r.Keys...), r.TTL)) }()
}

func (*extender) Flush() {}

func (e *extender) extend(ctx context.Context, keys []string, ttl time.Duration) (time.Duration, error) {
	if len(keys) > 1 {
		e.note("of " + strings.Join(keys, " and "))
	}
	e.note("extend " + ttl.String() + " at")
	e.mu.Lock()
	took, err := e.took, e.err
	e.mu.Unlock()
	select {
	case <-time.After(took):
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	return ttl - took - 100*time.Millisecond, err
}

func (e *extender) Abandon(key string, _ quorum.Token) { e.note("release " + key + " at") }

func (e *extender) fail(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.err = err
}

func (e *extender) log() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.asked)
}

func isRelease(asked string) bool { return strings.HasPrefix(asked, "release ") }

// fakeOwner is a connection.
type fakeOwner struct {
	resp3  bool
	onEnd  func(resp.End)
	mu     sync.Mutex
	pushed []string
}

func (f *fakeOwner) OnEnd(g func(resp.End)) { f.onEnd = g }
func (f *fakeOwner) RESP3() bool            { return f.resp3 }
func (f *fakeOwner) RemoteAddr() net.Addr   { return &net.TCPAddr{} }
func (f *fakeOwner) pushes() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.pushed)
}

func (f *fakeOwner) Push(b []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pushed = append(f.pushed, fmt.Sprintf("%q at %v", b, sinceBegan()))
	return nil
}

// held runs f with a session lock of 3 s, granted at the start with a validity of 2.9 s.
func held(t *testing.T, delay time.Duration, f func(e *extender, o *fakeOwner, hs *Locks, freed func() []string)) {
	synctest.Test(t, func(t *testing.T) {
		e, o := &extender{took: 10 * time.Millisecond}, &fakeOwner{resp3: true}
		var mu sync.Mutex
		var freed []string
		hs := New(e, func(key, _ string) {
			mu.Lock()
			defer mu.Unlock()
			freed = append(freed, key)
		}, nil, 10*time.Second, delay, zap.NewNop())
		e.holds = hs
		hs.suspended = func() time.Duration { return 0 } // the real clocks are no part of the bubble
		hs.Keep(o, []string{"job"}, quorum.Lease{Token: quorum.Token{Fence: 7, Secret: strings.Repeat("ab", 20)},
			Validity: 2900 * time.Millisecond}, 3*time.Second)
		f(e, o, hs, func() []string {
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(freed)
		})
		hs.Close()
	})
}

// TestRenewedEachThirdOfTTLUntilMaxHold: every third of the ttl, on absolute times however long a
// renewal takes (bug B17), until max-hold; then it runs out.
func TestRenewedEachThirdOfTTLUntilMaxHold(t *testing.T) {
	held(t, 0, func(e *extender, o *fakeOwner, hs *Locks, freed func() []string) {
		time.Sleep(3500 * time.Millisecond)
		want := []string{"extend 3s at 1s", "extend 3s at 2s", "extend 3s at 3s"}
		if got := e.log(); !slices.Equal(got, want) {
			t.Errorf("renewed %v, want %v", got, want)
		}
		time.Sleep(time.Minute)
		got := e.log()
		if len(got) != 9 || got[8] != "extend 3s at 9s" || hs.Count() != 0 {
			t.Errorf("renewed %v, %d left; want the last one at 9s", got, hs.Count())
		}
		push := `">4\r\n$4\r\nlock\r\n$4\r\nlost\r\n$3\r\njob\r\n$57\r\n0000000000000007:` + strings.Repeat("ab",
			20) + `\r\n" at 11.85s`
		if len(o.pushes()) != 1 || o.pushes()[0] != push {
			t.Errorf("pushed %v, want %s: 9s + 10ms + 2.89s - 50ms", o.pushes(), push)
		}
		if len(freed()) != 0 {
			t.Errorf("freed %v", freed())
		}
	})
}

// TestRenewalFails: tried again until validity ends, and not a moment longer (bugs B18, B26). The
// lock is left to run out then, because the holder may have extended it through another proxy.
func TestRenewalFails(t *testing.T) {
	for _, recover := range []bool{true, false} {
		held(t, 0, func(e *extender, o *fakeOwner, hs *Locks, freed func() []string) {
			e.fail(quorum.ErrLate)
			time.Sleep(2 * time.Second)
			if n := len(e.log()); n < 3 {
				t.Errorf("%d tries in the second after the first failed", n)
			}
			if recover {
				e.fail(nil)
			}
			time.Sleep(5 * time.Second)
			if lost := len(o.pushes()) == 1 && strings.HasSuffix(o.pushes()[0], "at 2.85s"); lost == recover ||
				len(o.pushes()) > 1 {
				t.Errorf("recovers %v: pushed %v", recover, o.pushes())
			}
			n := len(e.log())
			time.Sleep(2 * time.Second)
			if again := len(e.log()) > n; again != recover {
				t.Errorf("recovers %v: renewed further %v", recover, again)
			}
			o.onEnd(resp.EndClient)
			if got := slices.ContainsFunc(e.log(), isRelease); got != recover || len(freed()) == 1 != recover {
				t.Errorf("recovers %v: asked %v, freed %v", recover, e.log(), freed())
			}
		})
	}
}

// TestRenewalLost: a lock that provably no longer exists is lost at once; ExtendAsync removes its
// remains. A RESP2 client gets no push.
func TestRenewalLost(t *testing.T) {
	held(t, 0, func(e *extender, o *fakeOwner, hs *Locks, freed func() []string) {
		o.resp3 = false
		e.fail(quorum.ErrLost)
		time.Sleep(5 * time.Second)
		if got := e.log(); !slices.Equal(got, []string{"extend 3s at 1s"}) || hs.Count() != 0 || len(o.pushes()) != 0 ||
			len(freed()) != 1 {
			t.Errorf("asked %v, %d left, pushed %v, freed %v", got, hs.Count(), o.pushes(), freed())
		}
	})
}

// TestHoldEnds: if the client ends the connection, the lock is released at once or after the
// lock-delay; otherwise it runs out.
func TestHoldEnds(t *testing.T) {
	for _, tt := range []struct {
		name  string
		how   resp.End
		delay time.Duration
		want  []string
	}{
		{"closed", resp.EndClient, 0, []string{"release job at 500ms"}},
		{"QUIT", resp.EndQuit, 0, []string{"release job at 500ms"}},
		{"RESET", resp.EndReset, 0, []string{"release job at 500ms"}},
		{"proxy", resp.EndProxy, 0, nil},
		{"closed, delay", resp.EndClient, 20 * time.Second, []string{"extend 20s at 500ms", "release job at 20.51s"}},
		{"RESET, delay", resp.EndReset, 20 * time.Second, []string{"extend 20s at 500ms", "release job at 20.51s"}},
		{"QUIT, delay", resp.EndQuit, 20 * time.Second, []string{"release job at 500ms"}},
		{"proxy, delay", resp.EndProxy, 20 * time.Second, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			held(t, tt.delay, func(e *extender, o *fakeOwner, hs *Locks, freed func() []string) {
				time.Sleep(500 * time.Millisecond)
				o.onEnd(tt.how)
				time.Sleep(time.Minute)
				if got := e.log(); !slices.Equal(got, tt.want) || hs.Count() != 0 || len(o.pushes()) != 0 {
					t.Errorf("%s: asked %v, want %v; %d left, pushed %v", tt.name, got, tt.want, hs.Count(), o.pushes())
				}
				if woken := len(freed()) == 1; woken != (tt.how != resp.EndProxy) {
					t.Errorf("%s: freed %v", tt.name, freed())
				}
			})
		})
	}
}

// TestNoRenewalAfterUnlock: not even when the answer to one comes after it (bug B18).
func TestNoRenewalAfterUnlock(t *testing.T) {
	held(t, 0, func(e *extender, o *fakeOwner, hs *Locks, _ func() []string) {
		time.Sleep(1005 * time.Millisecond) // in the middle of the first renewal
		hs.Forget("job", nil, strings.Repeat("ab", 20))
		time.Sleep(time.Minute)
		if got := e.log(); len(got) != 1 || len(o.pushes()) != 0 || hs.Count() != 0 {
			t.Errorf("asked %v, pushed %v, %d left", got, o.pushes(), hs.Count())
		}
	})
}

// TestUnlockOfAnotherKey: UNLOCK with the token of a session lock but the name of another key
// releases no key, and the renewal goes on.
func TestUnlockOfAnotherKey(t *testing.T) {
	held(t, 0, func(e *extender, o *fakeOwner, hs *Locks, _ func() []string) {
		hs.Forget("other", nil, strings.Repeat("ab", 20))
		time.Sleep(1500 * time.Millisecond)
		if got := e.log(); !slices.Equal(got, []string{"extend 3s at 1s"}) || hs.Count() != 1 {
			t.Errorf("asked %v, %d held", got, hs.Count())
		}
	})
}

// TestExtendedLock: after EXTEND a client keeps its session lock for the validity of the reply,
// even if renewals fail.
func TestExtendedLock(t *testing.T) {
	held(t, 0, func(e *extender, o *fakeOwner, hs *Locks, _ func() []string) {
		time.Sleep(1500 * time.Millisecond)
		hs.Extended("job", nil, strings.Repeat("ab", 20), 20*time.Second)
		hs.Extended("job", nil, strings.Repeat("ab", 20), time.Second)      // a shorter one has no effect
		hs.Extended("other", nil, strings.Repeat("ab", 20), 40*time.Second) // nor has another key anything to do with it
		time.Sleep(time.Second)                                             // a renewal at 2s
		e.fail(quorum.ErrLate)
		time.Sleep(time.Minute)
		if pushed := o.pushes(); len(pushed) != 1 || !strings.HasSuffix(pushed[0], "at 21.45s") {
			t.Errorf("pushed %v, want the loss at 1.5s + 20s - 50ms", pushed)
		}
	})
}
