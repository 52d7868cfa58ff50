package quorum

import (
	"context"
	"net"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/quorum/internal/fake"
	"lockproxy/quorum/internal/wire"
	"lockproxy/stat"
)

// reading makes a Quorum call after for whatever comes from a master, before it learns of it.
func reading(m int, after func() error) func(*Options) {
	return func(o *Options) {
		dial := o.Masters[m].Dial
		o.Masters[m].Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := dial(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			return &readConn{c, after}, nil
		}
	}
}

type readConn struct {
	net.Conn
	after func() error
}

func (c *readConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err == nil {
		err = c.after()
	}
	if err != nil {
		return 0, err
	}
	return n, nil
}

// away makes a Quorum not reach a master until reached is set.
func away(m int, reached *atomic.Bool) func(*Options) {
	return func(o *Options) {
		dial := o.Masters[m].Dial
		o.Masters[m].Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			if !reached.Load() {
				return nil, syscall.ECONNREFUSED
			}
			return dial(ctx, network, addr)
		}
	}
}

// untilChecked waits until the token has landed on a master, and for the check that follows. That
// comes at once.
func untilChecked(q *Quorum, m *fake.Master, l Lease) {
	for {
		if _, ours := m.Holds("lock:job", l.Token.Secret); ours {
			break
		}
		time.Sleep(time.Millisecond)
	}
	synctest.Wait()
	q.checks.mu.Lock()
	if k := q.checks.waits[wire.TokenAt{Key: "lock:job", Secret: l.Token.Secret}]; k != nil {
		q.deadlines.set(&k.due, time.Now())
	}
	q.checks.mu.Unlock()
	time.Sleep(50 * time.Millisecond)
}

// Nothing is owed to a master to which nothing of the token was ever sent.
func TestReleaseOwesNothing(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, s *sim) {
		q := s.quorum()
		s.masters[2].Stop()
		synctest.Wait()
		for range 3 {
			lease := mustAcquire(t, q, "job", time.Minute)
			mustRelease(t, q, "job", lease.Token)
			synctest.Wait()
		}
		if n := q.Masters()[2].Owed; n != 0 {
			t.Errorf("%d releases owed, want none", n)
		}
	})
	inBubble(t, 3, func(t *testing.T, s *sim) {
		q := s.quorum(func(o *Options) { o.Guard = GuardOn })
		m := s.masters[2]
		m.FlushAll()
		time.Sleep(2 * time.Second)
		if state := q.Masters()[2].State; state != stat.StateQuarantined {
			t.Fatalf("the master is %v", state)
		}
		lease := mustAcquire(t, q, "job", time.Minute)
		mustRelease(t, q, "job", lease.Token)
		time.Sleep(2 * time.Second)
		if n := m.Ran("release"); n != 1 {
			t.Errorf("%d releases on a master in quarantine, want 1", n)
		}
	})
}

// As TestReleaseBeforeTopUp, and the answer of the release that came before the top-up is on its
// way until the others have deleted the token.
func TestReleaseBeforeTopUpOnItsWay(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, s *sim) {
		var reached [2]atomic.Bool
		late := s.masters[2]
		q := s.quorum(away(2, &reached[0]))
		other := s.quorum(away(2, &reached[1]), reading(2, func() error {
			if late.Ran("release") == 1 {
				time.Sleep(1800 * time.Millisecond)
			}
			return nil
		}))
		lease := mustAcquire(t, q, "job", time.Minute)
		delayed(s.masters[0], "release", 1500*time.Millisecond)
		delayed(s.masters[1], "release", 1500*time.Millisecond)
		go func() { _, _ = other.Release(context.Background(), []string{"job"}, lease.Token, 0) }()
		synctest.Wait()
		reached[1].Store(true)
		for late.Ran("release") == 0 {
			time.Sleep(time.Millisecond)
		}
		reached[0].Store(true)
		untilChecked(q, late, lease)
		if _, ours := s.masters[0].Holds("lock:job", lease.Token.Secret); !ours {
			t.Error("the release came early")
		}
		time.Sleep(5 * time.Second)
		s.noKeys("after all")
	})
}

// A master has deleted the token, and the connection broke before it could say so. The release is
// repeated where it came before the late grant, as the check had found the token on a majority.
func TestReleaseAnswerLost(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, s *sim) {
		late := s.masters[2]
		q := s.quorum()
		var broke atomic.Bool
		other := s.quorum(reading(0, func() error {
			if s.masters[0].Ran("release") == 1 && broke.CompareAndSwap(false, true) {
				return syscall.ECONNRESET
			}
			return nil
		}))
		delayed(late, "acquire", 20*time.Millisecond)
		delayed(s.masters[0], "release", 500*time.Millisecond)
		delayed(s.masters[1], "release", 500*time.Millisecond)
		lease := mustAcquire(t, q, "job", time.Minute)
		go func() { _, _ = other.Release(context.Background(), []string{"job"}, lease.Token, 0) }()
		untilChecked(q, late, lease)
		for i, m := range s.masters {
			if _, ours := m.Holds("lock:job", lease.Token.Secret); !ours {
				t.Errorf("master %d has no key", i+1)
			}
		}
		time.Sleep(5 * time.Second)
		if !broke.Load() {
			t.Error("the connection did not break")
		}
		s.noKeys("after all")
	})
}

// A top-up lands while a check of its token is under way, which asked its master before that: it
// is checked, too.
func TestLandedDuringCheck(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, s *sim) {
		late := s.masters[2]
		q := s.quorum(reading(0, func() error {
			if s.masters[0].Ran("check") == 1 {
				time.Sleep(40 * time.Millisecond)
			}
			return nil
		}))
		late.Set(func() { late.Keys["lock:job"] = fake.LockValue("other", 0, "", time.Now().Add(checkAfter)) })
		lease := mustAcquire(t, q, "job", time.Minute)
		token := wire.TokenAt{Key: "lock:job", Secret: lease.Token.Secret}
		q.checks.add(2, token, 0b011, time.Now().Add(time.Minute))
		time.Sleep(checkAfter + 5*time.Millisecond)
		mustRelease(t, s.quorum(), "job", lease.Token)
		end := time.Now().Add(time.Minute)
		late.Set(func() { late.Keys["lock:job"] = fake.LockValue(lease.Token.Secret, 0, "", end) })
		q.Landed(2, token, 0b011, end)
		time.Sleep(5 * time.Second)
		s.noKeys("after the check")
	})
}
