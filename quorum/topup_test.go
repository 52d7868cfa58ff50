package quorum

import (
	"context"
	"net"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// B10: a master that missed the SET is set when it is back, for what is left of the ttl, with the fence of the token.
func TestTopUp(t *testing.T) {
	for _, c := range []struct {
		name       string
		away, back func(*fakeMaster)
	}{
		{"down", (*fakeMaster).stop, (*fakeMaster).start},
		{"answered an error", func(m *fakeMaster) { m.answering("acquire", "-MISCONF disk\r\n") }, func(m *fakeMaster) { m.answering("", "") }},
		{"script lost", (*fakeMaster).flushScripts, func(*fakeMaster) {}},
		{"hung until the lane died, its memory lost", (*fakeMaster).pause, func(m *fakeMaster) {
			time.Sleep(4 * time.Second)
			m.stop()
			m.start()
			m.resume()
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, s *sim) {
				q := s.quorum()
				m := s.masters[2]
				c.away(m)
				synctest.Wait()
				s.masters[0].setCounter("lock:job", 7)
				s.masters[1].setCounter("lock:job", 7)
				start := time.Now()
				lease := mustAcquire(t, q, "job", 20*time.Second)
				c.back(m)
				time.Sleep(5 * time.Second)
				m.mu.Lock()
				v, ok := m.store["lock:job"]
				m.mu.Unlock()
				if !ok || v.secret != lease.Token.Secret || v.fence != 8 {
					t.Fatalf("value %+v, %v, want ours with fence 8", v, ok)
				}
				if life := v.end.Sub(start); life > 20*time.Second || life < 19*time.Second {
					t.Errorf("lives until %v, want the rest of 20s", life)
				}
				if n := m.counter("lock:job"); n != 8 {
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
			s.masters[2].stop()
			synctest.Wait()
			lease := mustAcquire(t, q, "job", time.Minute)
			mustRelease(t, q, "job", lease.Token)
			s.masters[2].start()
			time.Sleep(3 * time.Second)
			s.noKeys("after the master came back")
			if n := s.masters[2].ran("topup"); n != 0 {
				t.Errorf("%d top-ups after the release", n)
			}
		})
	})
	t.Run("refused", func(t *testing.T) {
		inBubble(t, 3, func(t *testing.T, s *sim) {
			q := s.quorum()
			m := s.masters[2]
			m.set(func() { m.store["lock:job"] = fakeValue{secret: "other", end: time.Now().Add(time.Second)} })
			mustAcquire(t, q, "job", time.Minute)
			time.Sleep(3 * time.Second)
			if n := m.ran("topup"); n != 0 {
				t.Errorf("%d top-ups on a master that refused", n)
			}
		})
	})
	t.Run("over", func(t *testing.T) {
		inBubble(t, 3, func(t *testing.T, s *sim) {
			q := s.quorum()
			s.masters[2].stop()
			synctest.Wait()
			mustAcquire(t, q, "job", time.Second)
			time.Sleep(2 * time.Second)
			s.masters[2].start()
			time.Sleep(2 * time.Second)
			if n := s.masters[2].ran("topup"); n != 0 || q.Masters()[2].Owed != 0 {
				t.Errorf("%d top-ups of a lock that is over, %d owed", n, q.Masters()[2].Owed)
			}
		})
	})
}

// A grant or top-up that lands after the lock was released through another proxy is found by the check and released.
func TestCheckAfterForeignRelease(t *testing.T) {
	for _, c := range []struct {
		name       string
		away, back func(*fakeMaster)
	}{
		{"late grant", (*fakeMaster).pause, (*fakeMaster).resume},
		{"late grant, lane cut", (*fakeMaster).pause, func(m *fakeMaster) { m.cut(); m.resume() }},
		{"top-up", (*fakeMaster).stop, (*fakeMaster).start},
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
		s.masters[2].pause()
		lease := mustAcquire(t, q, "job", time.Minute)
		s.masters[2].resume()
		time.Sleep(time.Second)
		if n := s.masters[0].ran("check"); n != 1 {
			t.Errorf("%d checks, want 1", n)
		}
		for i, m := range s.masters {
			if _, ours := m.holds("lock:job", lease.Token.Secret); !ours {
				t.Errorf("master %d lost the lock", i+1)
			}
		}
	})
}

// A lock released here at once costs no check, though its third grant is always late.
func TestNoCheckAfterRelease(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, s *sim) {
		q := s.quorum()
		s.masters[2].delayed("acquire", time.Millisecond)
		for i := range 10 {
			lease := mustAcquire(t, q, "job", time.Minute)
			time.Sleep(time.Duration(i%2) * 2 * time.Millisecond) // before and after the late grant
			mustRelease(t, q, "job", lease.Token)
			time.Sleep(5 * time.Millisecond)
		}
		time.Sleep(time.Second)
		if n := s.masters[0].ran("check"); n != 0 {
			t.Errorf("%d checks, want none", n)
		}
	})
}

// The same with another master away: a voter that has lost the token tells, and where no voter can be asked the check comes again.
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
				late.pause()
				synctest.Wait()
				lease := mustAcquire(t, q, "job", time.Minute)
				mustRelease(t, s.quorumOf(2), "job", lease.Token)
				for _, i := range c.away {
					s.masters[i].stop()
				}
				synctest.Wait()
				late.resume()
				time.Sleep(5 * time.Second)
				if _, ours := late.holds("lock:job", lease.Token.Secret); ours != (len(c.away) == 2) {
					t.Errorf("the late master holds the token: %v", ours)
				}
				for _, i := range c.away {
					s.masters[i].start()
				}
				time.Sleep(5 * time.Second)
				s.noKeys("with all back")
			})
		})
	}
}

// The same while the other proxy still owes the release to a master: the check finds a majority that seems to hold the token.
// When the release is carried out at last, it is repeated everywhere.
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
		s.masters[2].delayed("acquire", 20*time.Millisecond)
		lease := mustAcquire(t, q, "job", time.Minute)
		mustRelease(t, other, "job", lease.Token)
		time.Sleep(3 * time.Second)
		if _, ours := s.masters[2].holds("lock:job", lease.Token.Secret); !ours {
			t.Error("the late grant was released although a majority seemed to hold the lock")
		}
		whole.Store(true)
		time.Sleep(5 * time.Second)
		s.noKeys("with all back")
	})
}
