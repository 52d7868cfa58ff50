package quorum

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/quorum/internal/fake"
	"lockproxy/quorum/internal/wire"
)

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
		q.fleet.deadlines.set(&k.due, time.Now())
	}
	q.checks.mu.Unlock()
	time.Sleep(50 * time.Millisecond)
}

// A grant or top-up that lands after the lock was released through another proxy is found by the
// check and released.
func TestCheckAfterForeignRelease(t *testing.T) {
	for _, c := range []struct {
		name       string
		away, back func(*fake.Master)
	}{
		{"late grant", (*fake.Master).Pause, (*fake.Master).Resume},
		{"late grant, lane cut", (*fake.Master).Pause, func(m *fake.Master) { m.Cut(); m.Resume() }},
		{"top-up", (*fake.Master).Stop, (*fake.Master).Start},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, s *sim) {
				q := s.quorum()
				c.away(s.masters[2])
				synctest.Wait()
				lease := mustAcquire(t, q, "job", time.Minute)
				other := s.quorumOf(2)
				mustRelease(t, other, "job", lease.Token)
				c.back(s.masters[2])
				time.Sleep(5 * time.Second)
				s.noKeys("after the check")
			})
		})
	}
}

// A late grant of a lock that is still held stays.
func TestCheckKeepsHeldLock(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, s *sim) {
		q := s.quorum()
		s.masters[2].Pause()
		lease := mustAcquire(t, q, "job", time.Minute)
		s.masters[2].Resume()
		time.Sleep(checkAfter + time.Second)
		if n := s.masters[0].Ran("check"); n != 1 {
			t.Errorf("%d checks, want 1", n)
		}
		for i, m := range s.masters {
			if _, ours := m.Holds("lock:job", lease.Token.Secret); !ours {
				t.Errorf("master %d lost the lock", i+1)
			}
		}
	})
}

// A lock released here at once costs no check, though its third grant is always late.
func TestNoCheckAfterRelease(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, s *sim) {
		q := s.quorum()
		delayed(s.masters[2], "acquire", time.Millisecond)
		for i := range 10 {
			lease := mustAcquire(t, q, "job", time.Minute)
			time.Sleep(time.Duration(i%2) * 2 * time.Millisecond) // before and after the late grant
			mustRelease(t, q, "job", lease.Token)
			time.Sleep(5 * time.Millisecond)
		}
		time.Sleep(checkAfter + time.Second)
		if n := s.masters[0].Ran("check"); n != 0 {
			t.Errorf("%d checks, want none", n)
		}
	})
}

// After a release through another proxy, one or both voters are away. A voter that lacks the token
// settles the check, also without the restart guard; if no voter can be asked, the check comes
// again.
func TestCheckWithMasterAway(t *testing.T) {
	for _, c := range []struct {
		name  string
		guard func(*Options)
		away  []int // besides the late one
		stays bool
	}{
		{"one voter left", guarded, []int{1}, false},
		{"one voter left, which may have forgotten", func(*Options) {}, []int{1}, false},
		{"no voter left, for a while", func(*Options) {}, []int{0, 1}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, s *sim) {
				var never atomic.Bool
				q, other := s.quorum(c.guard), s.quorum(c.guard, away(2, &never))
				late := s.masters[2]
				time.Sleep(time.Second)
				late.Pause()
				synctest.Wait()
				lease := mustAcquire(t, q, "job", time.Minute)
				mustRelease(t, other, "job", lease.Token)
				for _, i := range c.away {
					s.masters[i].Stop()
				}
				synctest.Wait()
				late.Resume()
				time.Sleep(5 * time.Second)
				if _, ours := late.Holds("lock:job", lease.Token.Secret); ours != c.stays {
					t.Errorf("the late master holds the token: %v", ours)
				}
				for _, i := range c.away {
					s.masters[i].Start()
				}
				time.Sleep(checkAfter + fadeTime + time.Second)
				s.noKeys("with all back")
			})
		})
	}
}

// A second top-up lands in the moment in which the check of the first ends without a majority. The
// check counts who is a voter by then, and reads that under the mutex of the checks: the race
// detector sees it if not.
func TestCheckEndsBesideLanding(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, s *sim) {
		q := s.quorum()
		synctest.Wait()
		s.masters[0].Pause()
		s.masters[1].Pause()
		token := wire.TokenAt{Key: "lock:job", Secret: q.opts.Dice.Secret()}
		q.checks.add(2, token, 0b111, time.Now().Add(time.Minute))
		time.Sleep(checkAfter + q.opts.MasterTimeout)
		q.checks.add(2, token, 0b011, time.Now().Add(time.Minute)) // the third, which answers, is no voter any more
	})
}

// TestCheckBesideLanding: what lands while the masters are asked is not covered by their answers.
func TestCheckBesideLanding(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, s *sim) {
		q := s.quorum()
		lease := mustAcquire(t, q, "job", time.Minute)
		token := wire.TokenAt{Key: "lock:job", Secret: lease.Token.Secret}
		time.Sleep(checkAfter + time.Second) // the check of its own third grant has ended
		before := s.masters[0].Ran("check")
		for i := range s.masters {
			delayed(s.masters[i], "check", 10*time.Millisecond)
		}
		waits := func() bool {
			q.checks.mu.Lock()
			defer q.checks.mu.Unlock()
			return q.checks.waits[token] != nil
		}
		q.checks.add(2, token, 0b111, time.Now().Add(time.Minute))
		time.Sleep(checkAfter + 5*time.Millisecond)
		q.checks.add(2, token, 0b011, time.Now().Add(time.Minute))
		time.Sleep(20 * time.Millisecond)
		if !waits() {
			t.Error("not checked again")
		}
		time.Sleep(checkAfter + 100*time.Millisecond)
		if n := s.masters[0].Ran("check") - before; waits() || n != 2 {
			t.Errorf("%d checks, want 2; waits for another one: %v", n, waits())
		}
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
		late.Set(func() { late.SetLock("lock:job", "other", 0, "", time.Now().Add(checkAfter)) })
		lease := mustAcquire(t, q, "job", time.Minute)
		token := wire.TokenAt{Key: "lock:job", Secret: lease.Token.Secret}
		q.checks.add(2, token, 0b011, time.Now().Add(time.Minute))
		time.Sleep(checkAfter + 5*time.Millisecond)
		mustRelease(t, s.quorum(), "job", lease.Token)
		end := time.Now().Add(time.Minute)
		late.Set(func() { late.SetLock("lock:job", lease.Token.Secret, 0, "", end) })
		q.checks.add(2, token, 0b011, end)
		time.Sleep(5 * time.Second)
		s.noKeys("after the check")
	})
}

// The answer of the second master to LOCK is lost. The lock is released there and on the first;
// the third is slow. Then the second is topped up, and holds the token with the third: a
// majority. But the first one made the lease and lacks the token, which shows the release. If
// that one cannot be asked, the check comes again.
func TestCheckAfterMajorityDeleted(t *testing.T) {
	for _, asked := range []bool{true, false} {
		t.Run(fmt.Sprint("voter asked ", asked), func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, s *sim) {
				var deaf, cut, away atomic.Bool
				first := true
				away.Store(true)
				q := s.quorum(func(o *Options) {
					gate(o, 0, &cut, nil)
					gate(o, 1, new(atomic.Bool), func(c net.Conn) net.Conn {
						if !first {
							return c
						}
						first = false
						return deafConn{c, &deaf}
					})
				})
				other := s.quorum(func(o *Options) { gate(o, 2, &away, nil) })
				deaf.Store(true)
				lease := mustAcquire(t, q, "job", time.Minute)
				synctest.Wait()
				if _, ours := s.masters[1].Holds("lock:job", lease.Token.Secret); !ours {
					t.Fatal("the second master has not granted")
				}
				mustRelease(t, other, "job", lease.Token)
				if !asked {
					cut.Store(true)
					s.masters[0].Cut()
				}
				waitHeld(s.masters[1], "lock:job", lease.Token)
				time.Sleep(checkAfter + 100*time.Millisecond) // the check finds it on two masters
				away.Store(false)
				cut.Store(false)
				time.Sleep(checkAfter + fadeTime + 2*time.Second)
				s.noKeys("after all")
			})
		})
	}
}

// gate lets a Quorum reach a master unless closed is set, through the connections that wrap makes.
func gate(o *Options, i int, closed *atomic.Bool, wrap func(net.Conn) net.Conn) {
	dial := o.Masters[i].Dial
	o.Masters[i].Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if closed.Load() {
			return nil, syscall.ECONNREFUSED
		}
		conn, err := dial(ctx, network, addr)
		if err != nil || wrap == nil {
			return conn, err
		}
		return wrap(conn), nil
	}
}

// waitHeld waits until the master holds the token.
func waitHeld(m *fake.Master, key string, token Token) {
	for {
		if _, ours := m.Holds(key, token.Secret); ours {
			return
		}
		time.Sleep(time.Millisecond)
	}
}
