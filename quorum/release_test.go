package quorum

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// B12: UNLOCK answers once, in bounded time: 1, 0 or ErrNoQuorum.
func TestRelease(t *testing.T) {
	for _, c := range []struct {
		name string
		fail func(s *sim, key string)
		ok   bool
		err  error
		took time.Duration
	}{
		{"held by all", func(*sim, string) {}, true, nil, 0},
		{"two masters hang", func(s *sim, _ string) { s.each(3, 5, (*fakeMaster).pause) }, true, nil, 0},
		{"two masters down", func(s *sim, _ string) { s.each(3, 5, (*fakeMaster).stop) }, true, nil, 0},
		{"three hang", func(s *sim, _ string) { s.each(2, 5, (*fakeMaster).pause) }, false, ErrNoQuorum, 50 * time.Millisecond},
		{"three down", func(s *sim, _ string) { s.each(2, 5, (*fakeMaster).stop) }, false, ErrNoQuorum, 0},
		{"lost on three", func(s *sim, key string) { s.each(0, 3, (*fakeMaster).empty) }, false, nil, 0},
		{"lost on two", func(s *sim, key string) { s.each(0, 2, (*fakeMaster).empty) }, true, nil, 0},
		{"lost on two, one down", func(s *sim, key string) {
			s.each(0, 2, (*fakeMaster).empty)
			s.each(2, 3, (*fakeMaster).stop)
		}, true, nil, 0},
		{"lost on two, one hangs", func(s *sim, key string) {
			s.each(0, 2, (*fakeMaster).empty)
			s.each(2, 3, (*fakeMaster).pause)
		}, true, nil, 50 * time.Millisecond},
		{"answers are errors", func(s *sim, key string) {
			s.each(0, 3, func(m *fakeMaster) { m.answering("release", "-LOADING Redis is loading\r\n") })
		}, false, ErrNoQuorum, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, 5, func(t *testing.T, s *sim) {
				q := s.quorum()
				lease := mustAcquire(t, q, "job", time.Minute)
				synctest.Wait()
				c.fail(s, "lock:job")
				synctest.Wait()
				start := time.Now()
				ok, err := q.Release(t.Context(), "job", lease.Token)
				if took := time.Since(start); ok != c.ok || !errors.Is(err, c.err) || took != c.took {
					t.Errorf("got %v, %v after %v, want %v, %v after %v", ok, err, took, c.ok, c.err, c.took)
				}
				// Whatever it said, nothing stays once the masters are back.
				s.each(0, 5, func(m *fakeMaster) { m.answering("", ""); m.resume(); m.start() })
				time.Sleep(3 * time.Second)
				s.noKeys("after the masters came back")
			})
		})
	}
}

// A busy machine may stop the one who releases between two masters for long enough that the answer of the first is late, or that its lane is back and
// has paid what it owed. The repetition that follows must not overtake his question at the others: the lock was held until then.
func TestReleaseHeldUp(t *testing.T) {
	t.Run("late", func(t *testing.T) {
		heldUp(t, func(m *fakeMaster) { m.delayed("release", 2*lateRelease) }, func(*fakeMaster) { time.Sleep(3 * lateRelease) })
	})
	t.Run("back", func(t *testing.T) {
		heldUp(t, func(m *fakeMaster) { m.stop(); synctest.Wait() }, func(m *fakeMaster) { m.start(); time.Sleep(3 * time.Second) })
	})
}

func heldUp(t *testing.T, before, between func(first *fakeMaster)) {
	inBubble(t, 3, func(t *testing.T, s *sim) {
		q := s.quorum()
		lease := mustAcquire(t, q, "job", time.Minute)
		synctest.Wait()
		before(s.masters[0])
		u := q.pools.unlocks.Get().(*unlock)
		u.begin(debtKey{"lock:job", lease.Token.Secret})
		asking := q.askers.of(lease.Token.Secret)
		asking.Add(1)
		u.askOne(0)
		between(s.masters[0])
		u.askOne(1)
		u.askOne(2)
		asking.Add(-1)
		q.late.forget(u.debtKey)
		synctest.Wait()
		if ok, err := u.decide(); !ok || err != nil {
			t.Errorf("got %v, %v for a lock that was held", ok, err)
		}
		u.leave()
		time.Sleep(time.Second)
		if n := s.masters[1].ran("release"); n != 2 {
			t.Errorf("%d releases reached a master, want a second one as the first master was late", n)
		}
		s.noKeys("at the end")
	})
}

func (m *fakeMaster) empty() { m.set(func() { clear(m.store) }) }

// answering makes a master answer commands that begin with word so, without carrying them out.
func (m *fakeMaster) answering(word, answer string) {
	m.set(func() {
		m.hook = func(cmd string) (time.Duration, string) {
			if answer != "" && strings.HasPrefix(cmd, word) {
				return 0, answer
			}
			return 0, ""
		}
	})
}

func TestReleaseGivenUp(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, s *sim) {
		q := s.quorum()
		lease := mustAcquire(t, q, "job", time.Minute)
		synctest.Wait()
		s.each(0, 3, (*fakeMaster).pause)
		cause := errors.New("client hung up")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Millisecond, func() { cancel(cause) })
		if _, err := q.Release(ctx, "job", lease.Token); !errors.Is(err, cause) {
			t.Errorf("%v, want the cause", err)
		}
		s.each(0, 3, (*fakeMaster).resume)
		synctest.Wait()
		s.noKeys("after the caller left")
	})
}

func TestAbandon(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, s *sim) {
		q := s.quorum()
		lease := mustAcquire(t, q, "job", time.Minute)
		q.Abandon("job", lease.Token)
		synctest.Wait()
		s.noKeys("after Abandon")
	})
}

// A foreign or outdated token releases nothing.
func TestReleaseForeignToken(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, s *sim) {
		q := s.quorum()
		lease := mustAcquire(t, q, "job", time.Minute)
		foreign := Token{Fence: lease.Token.Fence, Secret: (*dice)(nil).newSecret()}
		if ok, err := q.Release(t.Context(), "job", foreign); ok || err != nil {
			t.Errorf("Release = %v, %v, want false", ok, err)
		}
		synctest.Wait()
		for _, m := range s.masters {
			if _, ours := m.holds("lock:job", lease.Token.Secret); !ours {
				t.Error("a foreign token took the lock away")
			}
		}
	})
}

// B31: an error reply of any kind is no vote, counted by kind, and does not break the lane.
func TestErrorRepliesAreNoVote(t *testing.T) {
	for _, kind := range []string{"LOADING", "MISCONF", "READONLY", "OOM", "BUSY", "NOPERM", "ERR"} {
		t.Run(kind, func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, s *sim) {
				q := s.quorum()
				s.masters[0].answering("acquire", "-"+kind+" some \x01text\r\n")
				lease := mustAcquire(t, q, "job", time.Second)
				mustRelease(t, q, "job", lease.Token)
				s.masters[1].answering("acquire", "-"+kind+" some \x01text\r\n")
				start := time.Now()
				_, err := q.Acquire(t.Context(), Request{Key: "job", TTL: 10 * time.Second})
				if !errors.Is(err, ErrNoQuorum) || time.Since(start) != 0 {
					t.Fatalf("%v after %v, want ErrNoQuorum at once", err, time.Since(start))
				}
				want := `1 of 3 masters can vote, 2 needed: 10.0.0.1:6379 answered "` + kind + ` some  text"; ` +
					`10.0.0.2:6379 answered "` + kind + ` some  text"`
				if err.Error() != want {
					t.Errorf("text %q, want %q", err, want)
				}
				if st := q.Masters()[0]; st.State != StateVoting || st.ByKind[kind] != 2 || st.Errors != 2 {
					t.Errorf("status %+v, want voting with two errors", st)
				}
				synctest.Wait()
				s.noKeys("after the failure")
			})
		})
	}
}

// One proxy releases a lock, and at one master its release takes a while. Another finds the lock gone meanwhile, by an extension of the same holder,
// by a check, or by the renewal of a session: what it clears away must not be what the first is asked about. The lock was held until then.
func TestReleaseBesideOthers(t *testing.T) {
	for name, other := range map[string]func(q *Quorum, l Lease){
		"extension": func(q *Quorum, l Lease) {
			if _, err := q.Extend(context.Background(), "job", l.Token, time.Minute); !errors.Is(err, ErrLost) {
				panic(err)
			}
		},
		"check": func(q *Quorum, l Lease) {
			q.check(lateGrant{debtKey: debtKey{"lock:job", l.Token.Secret}, first: time.Now()})
		},
		"session": func(q *Quorum, l Lease) {
			q.AbandonLost("job", l.Token)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, s *sim) {
				q, second := s.quorum(), s.quorum()
				lease := mustAcquire(t, q, "job", time.Minute)
				synctest.Wait()
				s.masters[2].empty()
				slow := q.opts.MasterTimeout - 2*time.Millisecond
				s.masters[0].set(func() { // only the first, which comes from q
					var n atomic.Int32
					s.masters[0].hook = func(cmd string) (time.Duration, string) {
						if strings.HasPrefix(cmd, "release") && n.Add(1) == 1 {
							return slow, ""
						}
						return 0, ""
					}
				})
				time.AfterFunc(time.Millisecond, func() { other(second, lease) })
				if ok, err := q.Release(t.Context(), "job", lease.Token); !ok || err != nil {
					t.Errorf("got %v, %v for a lock that was held", ok, err)
				}
				time.Sleep(time.Second)
				s.noKeys("at the end")
			})
		})
	}
}

// What comes from a master after the time for it was over proves nothing, where it says that the token does not stand there.
func TestReleaseAnsweredTooLate(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, s *sim) {
		q := s.quorum()
		lease := mustAcquire(t, q, "job", time.Minute)
		synctest.Wait()
		s.each(0, 2, (*fakeMaster).empty)
		u := q.pools.unlocks.Get().(*unlock)
		u.begin(debtKey{"lock:job", lease.Token.Secret})
		time.Sleep(q.releaseTime() + time.Millisecond) // the process was stopped
		u.ask()
		synctest.Wait()
		var none *NoQuorumError
		if ok, err := u.decide(); ok || !errors.As(err, &none) || none.Answered != 1 {
			t.Errorf("got %v, %v", ok, err)
		}
		u.leave()
	})
}
