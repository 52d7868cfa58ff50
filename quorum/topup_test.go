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

// B10: a master that missed the SET is set when it is back, for what is left of the ttl, with the
// fence of the token.
func TestTopUp(t *testing.T) {
	for _, c := range []struct {
		name       string
		away, back func(*fake.Master)
	}{
		{"down", (*fake.Master).Stop, (*fake.Master).Start},
		{"answered an error", func(m *fake.Master) { answering(m, "acquire", "-MISCONF disk\r\n") }, func(m *fake.Master) { answering(m, "", "") }},
		{"script lost", (*fake.Master).FlushScripts, func(*fake.Master) {}},
		{"hung until the lane died, its memory lost", (*fake.Master).Pause, func(m *fake.Master) {
			time.Sleep(4 * time.Second)
			m.Stop()
			m.Start()
			m.Resume()
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, s *sim) {
				q := s.quorum()
				m := s.masters[2]
				c.away(m)
				synctest.Wait()
				setCounter(s.masters[0], "lock:job", 7)
				setCounter(s.masters[1], "lock:job", 7)
				start := time.Now()
				lease := mustAcquire(t, q, "job", 20*time.Second)
				c.back(m)
				time.Sleep(5 * time.Second)
				v, ok := at(m, "lock:job")
				if !ok || v.Secret() != lease.Token.Secret || v.Fence() != 8 {
					t.Fatalf("value %+v, %v, want ours with fence 8", v, ok)
				}
				if life := v.End.Sub(start); life > 20*time.Second || life < 19*time.Second {
					t.Errorf("lives until %v, want the rest of 20s", life)
				}
				if n := counter(m, "lock:job"); n != 8 {
					t.Errorf("counter %d, want 8", n)
				}
				mustRelease(t, q, "job", lease.Token)
				synctest.Wait()
				s.noKeys("after the release")
			})
		})
	}
}

// No top-up after the release, none over a refusal, none of a lock that is over.
func TestNoTopUp(t *testing.T) {
	t.Run("released", func(t *testing.T) {
		inBubble(t, 3, func(t *testing.T, s *sim) {
			q := s.quorum()
			s.masters[2].Stop()
			synctest.Wait()
			lease := mustAcquire(t, q, "job", time.Minute)
			mustRelease(t, q, "job", lease.Token)
			s.masters[2].Start()
			time.Sleep(3 * time.Second)
			s.noKeys("after the master came back")
			if n := s.masters[2].Ran("topup"); n != 0 {
				t.Errorf("%d top-ups after the release", n)
			}
		})
	})
	t.Run("refused", func(t *testing.T) {
		inBubble(t, 3, func(t *testing.T, s *sim) {
			q := s.quorum()
			m := s.masters[2]
			m.Set(func() { m.Keys["lock:job"] = fake.LockValue("other", 0, "", time.Now().Add(time.Second)) })
			mustAcquire(t, q, "job", time.Minute)
			time.Sleep(3 * time.Second)
			if n := m.Ran("topup"); n != 0 {
				t.Errorf("%d top-ups on a master that refused", n)
			}
		})
	})
	t.Run("over", func(t *testing.T) {
		inBubble(t, 3, func(t *testing.T, s *sim) {
			q := s.quorum()
			s.masters[2].Stop()
			synctest.Wait()
			mustAcquire(t, q, "job", time.Second)
			time.Sleep(2 * time.Second)
			s.masters[2].Start()
			time.Sleep(2 * time.Second)
			if n := s.masters[2].Ran("topup"); n != 0 || q.Masters()[2].Owed != 0 {
				t.Errorf("%d top-ups of a lock that is over, %d owed", n, q.Masters()[2].Owed)
			}
		})
	})
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

// The same with another master away: a voter that has lost the token tells, and where no voter can
// be asked the check comes again.
func TestCheckWithMasterAway(t *testing.T) {
	for _, c := range []struct {
		name string
		away []int // besides the late one
	}{
		{"one voter left", []int{1}},
		{"no voter left, for a while", []int{0, 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, s *sim) {
				q := s.quorum()
				late := s.masters[2]
				late.Pause()
				synctest.Wait()
				lease := mustAcquire(t, q, "job", time.Minute)
				mustRelease(t, s.quorumOf(2), "job", lease.Token)
				for _, i := range c.away {
					s.masters[i].Stop()
				}
				synctest.Wait()
				late.Resume()
				time.Sleep(5 * time.Second)
				if _, ours := late.Holds("lock:job", lease.Token.Secret); ours != (len(c.away) == 2) {
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
		token := wire.TokenAt{Key: "lock:job", Secret: q.opts.dice.Secret()}
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
		time.Sleep(time.Second) // the check of its own third grant is over
		before := s.masters[0].Ran("check")
		for i := range s.masters {
			delayed(s.masters[i], "check", 10*time.Millisecond)
		}
		waits := func() bool {
			q.checks.mu.Lock()
			defer q.checks.mu.Unlock()
			return q.checks.waits[token] != nil
		}
		q.Landed(2, token, 0b111, time.Now().Add(time.Minute))
		time.Sleep(checkAfter + 5*time.Millisecond)
		q.Landed(2, token, 0b011, time.Now().Add(time.Minute))
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

// The same while the other proxy still owes the release to a master: the check finds a majority
// that seems to hold the token. When the release is carried out at last, it is repeated
// everywhere.
func TestReleaseCarriedOutLate(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, s *sim) {
		q := s.quorum()
		var whole atomic.Bool
		other := s.quorum(func(o *Options) {
			dial := o.Masters[1].Dial
			o.Masters[1].Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
				if !whole.Load() {
					return nil, syscall.ECONNREFUSED
				}
				return dial(ctx, network, addr)
			}
		})
		delayed(s.masters[2], "acquire", 20*time.Millisecond)
		lease := mustAcquire(t, q, "job", time.Minute)
		mustRelease(t, other, "job", lease.Token)
		time.Sleep(3 * time.Second)
		if _, ours := s.masters[2].Holds("lock:job", lease.Token.Secret); !ours {
			t.Error("the late grant was released although a majority seemed to hold the lock")
		}
		whole.Store(true)
		time.Sleep(5 * time.Second)
		s.noKeys("with all back")
	})
}

// A master cannot be reached by either proxy when the lock is granted and released. Then it
// answers the release first, and is topped up after that; the check finds the token with those who
// made the lease, which are slow to release it. When they have, the release is repeated where it
// came before the top-up.
func TestReleaseBeforeTopUp(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, s *sim) {
		var reached [2]atomic.Bool // the third master, by each proxy
		away := func(proxy int) func(*Options) {
			return func(o *Options) {
				dial := o.Masters[2].Dial
				o.Masters[2].Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
					if !reached[proxy].Load() {
						return nil, syscall.ECONNREFUSED
					}
					return dial(ctx, network, addr)
				}
			}
		}
		q, other := s.quorum(away(0)), s.quorum(away(1))
		late := s.masters[2]
		lease := mustAcquire(t, q, "job", time.Minute)
		delayed(s.masters[0], "release", 1900*time.Millisecond)
		delayed(s.masters[1], "release", 1900*time.Millisecond)
		released := make(chan error, 1)
		go func() {
			_, err := other.Release(t.Context(), []string{"job"}, lease.Token, 0)
			released <- err
		}()
		reached[1].Store(true)
		for late.Ran("release") == 0 {
			time.Sleep(time.Millisecond)
		}
		reached[0].Store(true)
		untilChecked(q, late, lease)
		if n := s.masters[1].Ran("check"); n == 0 {
			t.Error("not checked")
		}
		if _, ours := s.masters[0].Holds("lock:job", lease.Token.Secret); !ours {
			t.Error("the release came early")
		}
		<-released
		time.Sleep(5 * time.Second)
		s.noKeys("after all")
	})
}

// deafConn is a connection whose answers are lost while deaf is set.
type deafConn struct {
	net.Conn
	deaf *atomic.Bool
}

func (c deafConn) Read(b []byte) (int, error) {
	for {
		n, err := c.Conn.Read(b)
		if err != nil || !c.deaf.Load() {
			return n, err
		}
	}
}

// The answer of the second master to LOCK is lost. The lock is released there and on the first;
// the third is slow. Then the second is topped up, and holds the token with the third: a majority.
// But the first one made the lease and lacks it, which tells. Where that one cannot be asked, the
// check comes again.
func TestCheckAfterMajorityDeleted(t *testing.T) {
	for _, asked := range []bool{true, false} {
		t.Run(fmt.Sprint("voter asked ", asked), func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, s *sim) {
				var deaf, cut, away atomic.Bool
				first := true
				gate := func(o *Options, i int, closed *atomic.Bool, wrap func(net.Conn) net.Conn) {
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
				for {
					if _, ours := s.masters[1].Holds("lock:job", lease.Token.Secret); ours {
						break
					}
					time.Sleep(time.Millisecond)
				}
				time.Sleep(checkAfter + 100*time.Millisecond) // the check finds it on two masters
				away.Store(false)
				cut.Store(false)
				time.Sleep(checkAfter + fadeTime + 2*time.Second)
				s.noKeys("after all")
			})
		})
	}
}
