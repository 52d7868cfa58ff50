package master

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/quorum/internal/fake"
	"lockproxy/quorum/internal/wire"
	"lockproxy/stat"
)

// A master that missed a lock gets it for the rest of its ttl. The lane reports that to the host
// unless the lock is being released.
func TestTopUp(t *testing.T) {
	inBubble(t, func(t *testing.T, m *fake.Master) {
		l, h := start(t, m)
		l.TopUp(topUp(tokenAt("a", 1)))
		l.Flush()
		synctest.Wait()
		noKeys(t, m) // a master that has just failed is left alone until the next tick
		time.Sleep(time.Second)
		synctest.Wait()
		m.Set(func() {
			lock, _ := m.Lock("lock:a")
			if left := time.Until(lock.End); left != 59*time.Second {
				t.Errorf("it lives for %v, want what is left of the ttl", left)
			}
		})
		l.TopUp(lacks(topUp(tokenAt("b", 2)))) // goes out at once
		l.TopUp(lacks(topUp(tokenAt("c", 3))))
		if err := l.Release(unlock(tokenAt("c", 3)), time.Minute, false, nil); err != nil {
			t.Fatal(err)
		}
		l.TopUp(lacks(topUp(tokenAt("c", 3)))) // released: left alone
		if !l.Releasing(tokenAt("c", 3)) || l.Releasing(tokenAt("b", 2)) {
			t.Error("Releasing is wrong")
		}
		l.Flush()
		synctest.Wait()
		if n, _ := m.Holds("", ""); n != 2 || l.Status().Repairs != 0 {
			t.Errorf("%d keys, %d pending", n, l.Status().Repairs)
		}
		if want := []wire.TokenAt{tokenAt("a", 1), tokenAt("b", 2)}; !slices.Equal(h.sofar().landed, want) {
			t.Errorf("told of %v, want %v", h.sofar().landed, want)
		}
	})
}

// A top-up that is not kept goes out at once, is reported, and does not come again.
func TestTopUpOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, m *fake.Master) {
		l, h := start(t, m)
		once := func(t TopUp) {
			t.Once, t.Lacks = true, true
			l.TopUp(t)
		}
		_ = l.Release(unlock(tokenAt("released", 3)), time.Minute, false, nil)
		over := topUp(tokenAt("over", 4))
		over.Until = time.Now()
		once(topUp(tokenAt("a", 1)))
		once(topUp(tokenAt("released", 3)))
		once(over)
		l.Flush()
		synctest.Wait()
		m.Set(func() {
			lock, _ := m.Lock("lock:a")
			if left := time.Until(lock.End); left != time.Minute {
				t.Errorf("it lives for %v, want the ttl", left)
			}
		})
		if n, _ := m.Holds("", ""); n != 1 || !slices.Equal(h.sofar().landed, []wire.TokenAt{tokenAt("a", 1)}) {
			t.Errorf("%d keys, told of %v", n, h.sofar().landed)
		}
		m.Stop()
		synctest.Wait()
		once(topUp(tokenAt("b", 2)))
		m.Start()
		time.Sleep(5 * time.Second)
		if _, ours := m.Holds("lock:b", tokenAt("b", 2).Secret); ours || l.Status().Repairs != 0 {
			t.Errorf("set when the master is back: %v, %d pending", ours, l.Status().Repairs)
		}
	})
}

// A master may hold a top-up that was sent, even if the connection broke.
func TestSentTopUp(t *testing.T) {
	inBubble(t, func(t *testing.T, m *fake.Master) {
		l, h := start(t, m)
		m.Pause()
		for i, key := range []string{"unlocked", "over"} {
			up := topUp(tokenAt(key, i))
			up.Unsent, up.Until, up.TTL = true, time.Now().Add(2*time.Second), 2*time.Second
			l.TopUp(up)
		}
		time.Sleep(1500 * time.Millisecond) // the tick has sent them
		m.Stop()
		synctest.Wait()
		_ = l.Release(unlock(tokenAt("unlocked", 0)), time.Minute, false, nil)
		if s := l.Status(); s.Repairs != 2 {
			t.Errorf("%d pending, want the release and the top-up", s.Repairs)
		}
		time.Sleep(2 * time.Second)
		m.Resume()
		m.Start()
		time.Sleep(time.Second)
		if got := h.sofar().landed; !slices.Equal(got, []wire.TokenAt{tokenAt("over", 1)}) {
			t.Errorf("told of %v", got)
		}
	})
}

// TestTopUpAgain: one that is made longer while it is under way goes out once more.
func TestTopUpAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, m *fake.Master) {
		l, _ := start(t, m)
		m.Pause()
		up := topUp(tokenAt("k", 1))
		l.TopUp(lacks(up))
		l.Flush()
		synctest.Wait()
		up.Until = up.Until.Add(time.Hour)
		l.TopUp(up)
		m.Resume()
		time.Sleep(1500 * time.Millisecond)
		m.Set(func() {
			lock, _ := m.Lock("lock:k")
			if left := time.Until(lock.End); left < time.Hour {
				t.Errorf("it lives for %v, want over an hour", left)
			}
		})
		if s := l.Status(); s.Repairs != 0 {
			t.Errorf("%d pending", s.Repairs)
		}
	})
}

// A top-up is dropped at the end of its ttl. If its SET may have landed late, the lane reports
// that to the host and releases no key: another proxy may have extended the lock.
func TestTopUpThatIsOver(t *testing.T) {
	inBubble(t, func(t *testing.T, m *fake.Master) {
		var closed atomic.Bool
		l, h := start(t, m, func(c *LaneConfig) {
			dial := c.Options.Dial
			c.Options.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
				if closed.Load() {
					return nil, errors.New("out of reach")
				}
				return dial(ctx, network, addr)
			}
		})
		m.Pause()
		var c collect
		k := tokenAt("job", 1)
		mustAsk(t, l, op(wire.Acquire, k), &c)
		synctest.Wait()
		closed.Store(true)
		m.Cut()
		synctest.Wait()
		m.Resume()
		short := topUp(k)
		short.Until = time.Now().Add(2 * time.Second)
		short.MayLand = true
		l.TopUp(short)
		over := topUp(tokenAt("other", 2))
		over.Until = time.Now().Add(2 * time.Second)
		l.TopUp(over)
		time.Sleep(3 * time.Second)
		closed.Store(false)
		time.Sleep(time.Second)
		if s := l.Status(); s.Repairs != 0 || s.State != stat.StateVoting {
			t.Errorf("status %+v", s)
		}
		if n, ours := m.Holds("lock:job", secret(1)); n != 1 || !ours {
			t.Error("the SET that landed late is gone")
		}
		if !slices.Equal(h.sofar().landed, []wire.TokenAt{k}) {
			t.Errorf("told of %v, want %v", h.sofar().landed, k)
		}
	})
}
