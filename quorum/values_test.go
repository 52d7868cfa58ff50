package quorum

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/quorum/internal/fake"
	"lockproxy/quorum/internal/wire"
)

// released releases by value, and returns the result.
func released(t *testing.T, q *Quorum, r ValueRequest) (bool, error) {
	t.Helper()
	held, _, err := Await(t.Context(), q.Flush, func(done func(bool, error)) { q.Values().ReleaseAsync(r, done) })
	return held, err
}

func refreshed(t *testing.T, q *Quorum, r ValueRequest) (bool, error) {
	t.Helper()
	held, _, err := Await(t.Context(), q.Flush, func(done func(bool, error)) { q.Values().RefreshAsync(r, done) })
	return held, err
}

func readHeld(t *testing.T, q *Quorum, key string) (Held, error) {
	t.Helper()
	h, _, err := Await(t.Context(), q.Flush, func(done func(Held, error)) { q.Values().ReadAsync(key, done) })
	return h, err
}

// adopt takes an adopted lock.
func adopt(t *testing.T, q *Quorum, key, value string, ttl time.Duration) Lease {
	t.Helper()
	lease, err := q.Acquire(t.Context(), Request{Key: key, Value: value, TTL: ttl})
	if err != nil || lease.Validity < ttl {
		t.Fatalf("adopt %q: %+v, %v", key, lease, err)
	}
	return lease
}

// wantRefreshed refreshes, and checks the result.
func wantRefreshed(t *testing.T, q *Quorum, r ValueRequest, want bool) {
	t.Helper()
	if held, err := refreshed(t, q, r); held != want || err != nil {
		t.Fatalf("refresh of %s to %v: %v, %v, want %v", r.Key, r.TTL, held, err, want)
	}
}

// wantReleased releases, and checks the result.
func wantReleased(t *testing.T, q *Quorum, r ValueRequest, want bool) {
	t.Helper()
	if held, err := released(t, q, r); held != want || err != nil {
		t.Errorf("release of %s: %v, %v, want %v", r.Key, held, err, want)
	}
}

// counted is how much later a lock may end because the low bits of an end count its changes.
const counted = 7 * time.Millisecond

func TestValueIsRefreshedShortenedAndReleased(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, s *sim) {
		q, other := s.quorum(), s.quorum()
		lease := adopt(t, q, "job", "v", 30*time.Second)
		synctest.Wait()
		h, err := readHeld(t, other, "job")
		if want := (Held{true, true, "v", lease.Token.Fence, 30 * time.Second}); err != nil || h != want {
			t.Errorf("%+v, %v, want %+v", h, err, want)
		}
		wantRefreshed(t, other, ValueRequest{Key: "job", Value: "w", TTL: time.Second}, false)
		for _, c := range []struct {
			name string
			q    *Quorum
			r    ValueRequest
			want time.Duration
		}{
			{"longer", other, ValueRequest{Key: "job", Value: "v", TTL: time.Minute}, time.Minute},
			{"shorter", q, ValueRequest{Key: "job", Value: "v", TTL: 10 * time.Second}, 10 * time.Second},
			{"shorter, of any value", other, ValueRequest{Key: "job", TTL: 5 * time.Second}, 5 * time.Second},
			{"added", q, ValueRequest{Key: "job", Value: "v", TTL: 15 * time.Second, Add: true}, 20 * time.Second},
		} {
			wantRefreshed(t, c.q, c.r, true)
			synctest.Wait()
			h, err := readHeld(t, q, "job")
			if h.Value != "v" || h.Rest > c.want+counted || h.Rest < c.want-time.Millisecond || err != nil {
				t.Errorf("%s: %+v, %v, want %v", c.name, h, err, c.want)
			}
		}
		wantReleased(t, other, ValueRequest{Key: "job", Value: "v"}, true)
		wantReleased(t, q, ValueRequest{Key: "job", Value: "v"}, false)
		if h, err := readHeld(t, q, "job"); h != (Held{}) || err != nil {
			t.Errorf("%+v, %v, want a free key", h, err)
		}
		synctest.Wait()
		s.noKeys("after the release")
	})
}

// farAway makes a Quorum reach all masters after d.
func (s *sim) farAway(d time.Duration) func(*Options) {
	return func(o *Options) {
		o.MasterTimeout = 10 * d
		for i, m := range s.masters {
			o.Masters[i].Dial = func(ctx context.Context, _, _ string) (net.Conn, error) { return m.DialFar(ctx, d) }
		}
	}
}

// pauseIdle pauses a master that owes no answer. One that owes an answer to a PING is waited for
// only until that is late, which is sooner than the answer to an operation sent now.
func pauseIdle(q *Quorum, s *sim, i int) {
	for q.Masters()[i].Unanswered > 0 {
		time.Sleep(time.Millisecond)
	}
	s.masters[i].Pause()
}

// lives checks on how many masters an adopted lock of job is, and how long it lives there.
func (s *sim) lives(value string, masters int, least, most time.Duration) {
	s.t.Helper()
	n := 0
	for i, m := range s.masters {
		l, ok := at(m, "lock:job")
		if !ok {
			continue
		}
		if left := time.Until(l.End); l.Owner != wire.OwnerOf(value) || left < least || left > most {
			s.t.Errorf("master %d has %q for %v, want %v to %v", i+1, l.Owner, left, least, most)
		}
		n++
	}
	if n != masters {
		s.t.Errorf("on %d masters, want %d", n, masters)
	}
}

// A value is taken only with the limits of a request, and an attempt by the ttl that was asked
// for.
func TestAdoptKeepsTheLimitsOfRequests(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, s *sim) {
		q := s.quorum()
		for name, r := range map[string]Request{
			"too long":     {Key: "job", TTL: time.Second, Value: strings.Repeat("v", MaxValue+1)},
			"an owner":     {Key: "job", TTL: time.Second, Value: "v", Owner: "me"},
			"shared":       {Key: "job", TTL: time.Second, Value: "v", Mode: Shared},
			"several keys": {Key: "job", TTL: time.Second, Value: "v", Keys: []string{"other"}},
		} {
			if _, err := q.Acquire(t.Context(), r); !errors.Is(err, ErrInvalidRequest) {
				t.Errorf("%s: %v", name, err)
			}
		}
		long := Request{Key: "job", Value: "v", TTL: time.Minute + time.Millisecond}
		if _, err := q.Acquire(t.Context(), long); !errors.Is(err, ErrInvalidTTL) {
			t.Errorf("%v, want ErrInvalidTTL", err)
		}
		for _, ttl := range []time.Duration{10 * time.Millisecond, time.Second, time.Minute} {
			adopt(t, q, "job", "v", ttl)
			synctest.Wait()
			s.lives("v", 3, Life(ttl), Life(ttl))
			if lease, err := q.Acquire(t.Context(), Request{Key: "job", Value: "v", TTL: ttl}); !errors.Is(err, ErrHeld) {
				t.Errorf("the same value again: %+v, %v", lease, err)
			}
			if held, err := released(t, q, ValueRequest{Key: "job", Value: "v"}); !held || err != nil {
				t.Errorf("%v, %v", held, err)
			}
		}
		s.each(0, 3, (*fake.Master).Pause)
		start := time.Now()
		r := Request{Key: "job", Value: "v", TTL: 100 * time.Millisecond}
		if _, err := q.Acquire(t.Context(), r); !errors.Is(err, ErrNoQuorum) || time.Since(start) != 25*time.Millisecond {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
}

// A grant that keeps less than was promised is none. Here both rounds of the attempt are slow.
func TestAdoptLate(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, s *sim) {
		q := s.quorum(func(o *Options) { o.MasterTimeout = time.Second })
		for i, m := range s.masters {
			setCounter(m, "lock:job", uint64(i))
			delayed(m, "packet", 80*time.Millisecond)
		}
		r := Request{Key: "job", Value: "v", TTL: 400 * time.Millisecond}
		lease, _, err := Await(t.Context(), q.Flush, func(done func(Lease, error)) { q.AcquireAsync(r, done) })
		if !errors.Is(err, ErrLate) {
			t.Errorf("%+v, %v, want ErrLate", lease, err)
		}
		time.Sleep(200 * time.Millisecond)
		s.noKeys("after a late grant")
		if lease, err := q.Acquire(t.Context(), Request{Key: "job", TTL: Life(r.TTL)}); err != nil {
			t.Errorf("without a promise: %+v, %v", lease, err)
		}
	})
}

// The label that is shown of an adopted lock does not have its value.
func TestAdoptedOwner(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, s *sim) {
		q := s.quorum()
		adopt(t, q, "job", "secret value", time.Minute)
		mustAcquire(t, q, "other", time.Minute)
		synctest.Wait()
		sum := sha256.Sum256([]byte("secret value"))
		want := "adopted " + hex.EncodeToString(sum[:])[:8]
		info, err := q.Inspect(t.Context(), "job")
		if err != nil || info.Owner != want || !info.Adopted || strings.Contains(fmt.Sprintf("%+v", info), "secret") {
			t.Errorf("%+v, %v, want %s", info, err, want)
		}
		if info, err := q.Inspect(t.Context(), "other"); err != nil || info.Adopted {
			t.Errorf("%+v, %v", info, err)
		}
	})
}

// Locks of other kinds are read, and never released or refreshed.
func TestValuesOfOthers(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, s *sim) {
		q := s.quorum()
		grantedOf(t, q, Request{Key: "lock", TTL: 30 * time.Second, Owner: "v"})
		grantedOf(t, q, Request{Key: "reader", TTL: 30 * time.Second, Owner: "v", Mode: Shared})
		s.each(0, 3, func(m *fake.Master) {
			m.Set(func() { m.SetLock("lock:foreign", "v", 0, "", time.Now().Add(30*time.Second)) })
		})
		synctest.Wait()
		for key, fence := range map[string]uint64{"lock": 1, "reader": 1, "foreign": 0} {
			h, err := readHeld(t, q, key)
			if want := (Held{Held: true, Fence: fence, Rest: 30 * time.Second}); h != want || err != nil {
				t.Errorf("%s: %+v, %v", key, h, err)
			}
			for _, r := range []ValueRequest{{Key: key, Value: "v", TTL: time.Second}, {Key: key, TTL: time.Second}} {
				wantRefreshed(t, q, r, false)
				wantReleased(t, q, r, false)
			}
			if again, err := readHeld(t, q, key); again != h || err != nil {
				t.Errorf("%s: %+v, %v after all", key, again, err)
			}
		}
	})
}

// A minority that has the value beside a silent master is no proof that it is not held.
func TestValuesWithoutQuorum(t *testing.T) {
	for _, c := range []struct {
		name              string
		lost, hang        int // masters
		noQuorum          bool
		held              bool // if not noQuorum
		knows, releasable bool
	}{
		{"one of three hangs", 0, 1, false, true, false, true},
		{"one lost, one hangs", 1, 1, true, false, false, false},
		{"one lost, one hangs, the secret is known", 1, 1, true, false, true, true},
		{"two hang", 0, 2, true, false, false, false},
		{"two lost", 2, 0, false, false, false, false},
		{"two lost, one hangs", 2, 1, false, false, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, s *sim) {
				q, other := s.quorum(), s.quorum()
				if c.knows {
					other = q
				}
				adopt(t, q, "job", "v", 30*time.Second)
				synctest.Wait()
				s.each(0, c.lost, empty)
				s.each(3-c.hang, 3, (*fake.Master).Pause)
				_, err := readHeld(t, other, "job")
				if errors.Is(err, ErrNoQuorum) != c.noQuorum {
					t.Errorf("read: %v", err)
				}
				held, err := refreshed(t, other, ValueRequest{Key: "job", Value: "v", TTL: 20 * time.Second})
				if held != c.held || errors.Is(err, ErrNoQuorum) != c.noQuorum {
					t.Errorf("refresh: %v, %v", held, err)
				}
				held, err = released(t, other, ValueRequest{Key: "job", Value: "v"})
				if held != c.releasable || errors.Is(err, ErrNoQuorum) != (c.noQuorum && !held) {
					t.Errorf("release: %v, %v", held, err)
				}
			})
		})
	}
}

// A read does not wait for a silent master.
func TestReadAtOnce(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, s *sim) {
		q := s.quorum()
		adopt(t, q, "job", "v", 30*time.Second)
		synctest.Wait()
		s.masters[1].Pause()
		start := time.Now()
		for key, want := range map[string]string{"job": "v", "free": ""} {
			if h, err := readHeld(t, q, key); h.Value != want || err != nil || time.Since(start) != 0 {
				t.Errorf("%s: %+v, %v after %v", key, h, err, time.Since(start))
			}
		}
	})
}

// The second round of a shortening names the end that it replaces. An extension through another
// proxy that overtakes it keeps its end.
func TestShorteningOvertaken(t *testing.T) {
	for _, c := range []struct {
		name     string
		extended time.Duration // after the shortening began; 0: not
		least    time.Duration
	}{
		{"not overtaken", 0, 0},
		{"before the first round", 2 * time.Millisecond, 0},
		{"before the second round", 12 * time.Millisecond, 50 * time.Second},
		{"after the second round", 17 * time.Millisecond, 50 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, s *sim) {
				q, other := s.quorum(s.farAway(10*time.Millisecond)), s.quorum()
				adopt(t, q, "job", "v", 40*time.Second)
				time.Sleep(time.Second)
				extended := make(chan bool, 1)
				if c.extended > 0 {
					time.AfterFunc(c.extended, func() {
						r := ValueRequest{Key: "job", Value: "v", TTL: time.Minute}
						other.Values().RefreshAsync(r, func(held bool, err error) { extended <- held && err == nil })
						other.Flush()
					})
				}
				wantRefreshed(t, q, ValueRequest{Key: "job", Value: "v", TTL: 5 * time.Second}, true)
				time.Sleep(10 * time.Millisecond)
				most := Life(time.Minute)
				if c.least == 0 {
					most = Life(5 * time.Second)
				}
				s.lives("v", 3, c.least, most+counted)
				if c.extended > 0 && !<-extended {
					t.Error("not extended")
				}
			})
		})
	}
}

// A shortening ends on all masters that answer, also of a lock that was just extended through
// another proxy, and its rest may be shorter than any ttl.
func TestShorteningEndsLocksOnAllMasters(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, s *sim) {
		q, other := s.quorum(), s.quorum()
		adopt(t, q, "job", "v", 30*time.Second)
		if held, err := refreshed(t, other, ValueRequest{Key: "job", Value: "v", TTL: time.Minute}); !held || err != nil {
			t.Fatalf("%v, %v", held, err)
		}
		synctest.Wait()
		short := ValueRequest{Key: "job", Value: "v", TTL: 3 * time.Millisecond}
		if held, err := refreshed(t, q, short); !held || err != nil {
			t.Fatalf("%v, %v", held, err)
		}
		if h, err := readHeld(t, other, "job"); err != nil || h.Rest < short.TTL || h.Rest > short.TTL+counted {
			t.Errorf("%+v, %v", h, err)
		}
		time.Sleep(Life(3*time.Millisecond) + counted + time.Millisecond)
		if h, err := readHeld(t, other, "job"); err != nil || h.Held {
			t.Errorf("%+v, %v", h, err)
		}
		if held, err := refreshed(t, q, ValueRequest{Key: "job", Value: "v", TTL: time.Second}); held || err != nil {
			t.Errorf("revived: %v, %v", held, err)
		}
	})
}

// A shortening reaches masters that are far away, too. One that hangs keeps its end: its answer
// comes too late.
func TestShortenFarAndHung(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, s *sim) {
		q := s.quorum(func(o *Options) {
			near := o.Masters[0].Dial
			s.farAway(20 * time.Millisecond)(o)
			o.MasterTimeout, o.Masters[0].Dial = 50*time.Millisecond, near
		})
		adopt(t, q, "job", "v", 30*time.Second)
		time.Sleep(time.Second)
		pauseIdle(q, s, 4)
		start := time.Now()
		held, err := refreshed(t, q, ValueRequest{Key: "job", Value: "v", TTL: 5 * time.Second})
		if took := time.Since(start); !held || err != nil || took != 70*time.Millisecond {
			t.Fatalf("%v, %v after %v", held, err, took)
		}
		s.masters[4].Resume()
		time.Sleep(Life(5*time.Second) + counted)
		s.lives("v", 1, 20*time.Second, 30*time.Second)
	})
}

// A far master hangs, and a shortening waits for it as long as it may. It still comes in time.
func TestShortenInTime(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, s *sim) {
		q := s.quorum(func(o *Options) {
			near := slices.Clone(o.Masters)
			s.farAway(60 * time.Millisecond)(o)
			copy(o.Masters, near[:4])
			o.MasterTimeout = 50 * time.Millisecond
		})
		adopt(t, q, "job", "v", 30*time.Second)
		time.Sleep(time.Second)
		pauseIdle(q, s, 4)
		start := time.Now()
		held, err := refreshed(t, q, ValueRequest{Key: "job", Value: "v", TTL: 300 * time.Millisecond})
		if took := time.Since(start); !held || err != nil || took != 70*time.Millisecond { // of 75ms
			t.Fatalf("%v, %v after %v", held, err, took)
		}
	})
}

// A master that lacks the lock gets it from the next refresh that lengthens it, if it answers
// then. A later top-up could revive a lock that another proxy has shortened.
func TestAdoptedTopUps(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, s *sim) {
		q := s.quorum()
		m := s.masters[2]
		m.Stop()
		synctest.Wait()
		adopt(t, q, "job", "v", 30*time.Second)
		refresh := func(ttl time.Duration) {
			t.Helper()
			if held, err := refreshed(t, q, ValueRequest{Key: "job", Value: "v", TTL: ttl}); !held || err != nil {
				t.Fatalf("%v, %v", held, err)
			}
			synctest.Wait()
		}
		refresh(40 * time.Second)
		m.Start()
		time.Sleep(3 * time.Second)
		s.lives("v", 2, 30*time.Second, Life(40*time.Second)+counted)
		refresh(20 * time.Second)
		s.lives("v", 2, 20*time.Second, Life(20*time.Second)+counted)
		refresh(30 * time.Second)
		s.lives("v", 3, 30*time.Second, Life(30*time.Second)+counted)
		time.Sleep(checkAfter + time.Second)
		if m.Ran("check") == 0 {
			t.Error("not checked")
		}
		if held, err := released(t, q, ValueRequest{Key: "job", Value: "v"}); !held || err != nil {
			t.Errorf("%v, %v", held, err)
		}
		synctest.Wait()
		s.noKeys("after the release")
	})
}

// Add never shortens a lock that another proxy has lengthened since the rest was read.
func TestAddOvertaken(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, s *sim) {
		q, other := s.quorum(s.farAway(10*time.Millisecond)), s.quorum()
		adopt(t, q, "job", "v", 10*time.Second)
		time.AfterFunc(12*time.Millisecond, func() { // after the rest was read
			r := ValueRequest{Key: "job", Value: "v", TTL: 30 * time.Second}
			other.Values().RefreshAsync(r, func(bool, error) {})
			other.Flush()
		})
		held, err := refreshed(t, q, ValueRequest{Key: "job", Value: "v", TTL: 10 * time.Second, Add: true})
		if !held || err != nil {
			t.Fatalf("%v, %v", held, err)
		}
		synctest.Wait()
		s.lives("v", 3, 40*time.Second, Life(40*time.Second)+2*counted)
		for _, ttl := range []time.Duration{21 * time.Second, 0, -time.Second} {
			held, err := refreshed(t, q, ValueRequest{Key: "job", Value: "v", TTL: ttl, Add: true})
			if held || !errors.Is(err, ErrInvalidTTL) {
				t.Errorf("adding %v: %v, %v", ttl, held, err)
			}
		}
	})
}

// The secret that a proxy remembers has one leftover. A release takes that away, and the lock of
// another secret with the same value.
func TestReleaseOfLeftover(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, s *sim) {
		q, other := s.quorum(), s.quorum()
		adopt(t, q, "job", "v", 30*time.Second)
		synctest.Wait()
		s.each(0, 2, empty)
		s.masters[0].Pause()
		_, _ = other.Acquire(t.Context(), Request{Key: "job", Value: "w", TTL: time.Second})
		s.masters[0].Resume()
		synctest.Wait()
		adopt(t, other, "job", "v", 30*time.Second)
		synctest.Wait()
		s.lives("v", 3, 0, time.Minute)
		if held, err := released(t, q, ValueRequest{Key: "job", Value: "v"}); !held || err != nil {
			t.Errorf("%v, %v", held, err)
		}
		synctest.Wait()
		s.noKeys("after the release")
	})
}

// A voter lacks a lock because it was shortened, and the extension after that did not reach it.
// The check of the master that granted late does not take that for a release.
func TestCheckAfterShortening(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, s *sim) {
		var never atomic.Bool
		q, other := s.quorum(guarded), s.quorum(guarded)
		third := s.quorum(guarded, away(1, &never))
		time.Sleep(2 * time.Second)
		delayed(s.masters[2], "acquire", 5*time.Millisecond)
		adopt(t, q, "job", "v", 30*time.Second)
		time.Sleep(300 * time.Millisecond)
		for _, c := range []struct {
			q   *Quorum
			ttl time.Duration
		}{{other, time.Second}, {third, 40 * time.Second}} {
			if held, err := refreshed(t, c.q, ValueRequest{Key: "job", Value: "v", TTL: c.ttl}); !held || err != nil {
				t.Fatalf("%v, %v", held, err)
			}
		}
		time.Sleep(checkAfter + fadeTime + time.Second)
		if s.masters[2].Ran("check") == 0 {
			t.Error("not checked")
		}
		s.lives("v", 2, 30*time.Second, time.Minute)
	})
}

// A secret on a minority that answers for all belongs to an attempt under way: it is not touched.
func TestValuesSpareAttempts(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, s *sim) {
		q, slow := s.quorum(), s.quorum(func(o *Options) {
			s.farAway(20 * time.Millisecond)(o)
			o.Masters[0].Dial = s.masters[0].Dial
		})
		granted := make(chan error, 1)
		go func() {
			_, err := slow.Acquire(t.Context(), Request{Key: "job", Value: "v", TTL: 30 * time.Second})
			granted <- err
		}()
		time.Sleep(10 * time.Millisecond)
		s.lives("v", 1, 0, time.Minute)
		if held, err := refreshed(t, q, ValueRequest{Key: "job", Value: "v", TTL: time.Second}); held || err != nil {
			t.Errorf("refreshed: %v, %v", held, err)
		}
		if held, err := released(t, q, ValueRequest{Key: "job", Value: "v"}); held || err != nil {
			t.Errorf("released: %v, %v", held, err)
		}
		if held, err := released(t, q, ValueRequest{Key: "job"}); held || err != nil {
			t.Errorf("released any: %v, %v", held, err)
		}
		if err := <-granted; err != nil {
			t.Fatal(err)
		}
		time.Sleep(checkAfter + fadeTime + time.Second)
		s.lives("v", 3, 20*time.Second, Life(30*time.Second))
	})
}

// A proxy that knows the secret of a value looks for it only if the masters have another.
func TestKnownSecret(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, s *sim) {
		q, other := s.quorum(), s.quorum()
		r, searches := ValueRequest{Key: "job", Value: "v", TTL: 20 * time.Second}, 0
		step := func(name string, do func(*testing.T, *Quorum, ValueRequest) (bool, error), q *Quorum, held, search bool) {
			t.Helper()
			if got, err := do(t, q, r); got != held || err != nil {
				t.Errorf("%s: %v, %v", name, got, err)
			}
			synctest.Wait()
			if search {
				searches++
			}
			if n := s.masters[0].Ran("inspect"); n != searches {
				t.Errorf("%s: %d searches, want %d", name, n, searches)
				searches = n
			}
		}
		adopt(t, q, "job", "v", 30*time.Second)
		step("own", refreshed, q, true, false)
		step("of another proxy", refreshed, other, true, true)
		step("found before", refreshed, other, true, false)
		step("known to both", released, other, true, false)
		step("released elsewhere", refreshed, q, false, true)
		adopt(t, other, "job", "v", 30*time.Second)
		step("taken again elsewhere", refreshed, q, true, true)
		step("taken again elsewhere, found", released, q, true, false)
		step("released", released, q, false, true)
		adopt(t, q, "job", "v", time.Second)
		time.Sleep(2 * time.Second)
		adopt(t, other, "job", "v", 30*time.Second)
		synctest.Wait() // or else the release may reach a master before the acquire, which a check undoes later
		step("ended and taken elsewhere", released, q, true, true)
		s.noKeys("after all")
	})
}

// The secret of a value is remembered for its key, and forgotten when it is released.
func TestSecretIsForgottenWithItsValue(t *testing.T) {
	var s secrets
	if got := s.get("k", "v"); got != "" || s.take("k", "v") != "" {
		t.Errorf("the empty memory has %q", got)
	}
	secret := func(i int) string { return fmt.Sprintf("%040x", i) }
	s.put("k", "v", secret(1))
	if s.get("k", "w") != "" || s.get("j", "v") != "" || s.get("v", "k") != "" {
		t.Error("found by another key or value")
	}
	s.put("k", "v", secret(2))
	if got := s.get("k", "v"); got != secret(2) {
		t.Errorf("%q after another grant", got)
	}
	if got := s.take("k", "v"); got != secret(2) || s.get("k", "v") != "" {
		t.Errorf("took %q, and has %q", got, s.get("k", "v"))
	}
	for i := range 2 * maxSecrets {
		s.put(fmt.Sprint(i), "v", secret(i))
	}
	found := 0
	for i := range 2 * maxSecrets {
		switch got := s.get(fmt.Sprint(i), "v"); got {
		case secret(i):
			found++
		case "":
		default:
			t.Fatalf("%q of %d", got, i)
		}
	}
	if found < maxSecrets/2 || found > maxSecrets {
		t.Errorf("%d are remembered", found)
	}
}

// A value of any bytes survives: an acquire, a top-up, refreshes, and the restart of the proxy,
// on real servers and through another proxy.
func TestValuesOnRedis(t *testing.T) {
	servers, addrs := startMasters(t, 3)
	value := make([]byte, MaxValue)
	_, _ = rand.Read(value)
	r := ValueRequest{Key: "job", Value: string(value)}
	q, other := dialQuorum(t, addrs), dialQuorum(t, addrs)
	adopt(t, q, "job", r.Value, 30*time.Second)
	stored := func() (n int) {
		for _, s := range servers {
			if text := s.Get(t.Context(), "lock:job").Val(); len(text) > 56 && text[56:] == wire.OwnerOf(r.Value) {
				n++
			}
		}
		return n
	}
	if !poll(aWhile, func() bool { return stored() == 3 }) {
		t.Fatalf("stored %d times", stored())
	}
	_ = servers[0].Del(t.Context(), "lock:job")
	refresh := func(q *Quorum, ttl time.Duration) {
		t.Helper()
		r.TTL = ttl
		wantRefreshed(t, q, r, true)
		h, err := readHeld(t, q, "job")
		if err != nil || h.Value != r.Value || h.Rest > ttl+counted || h.Rest < ttl-5*time.Second {
			t.Errorf("after a refresh to %v: %v, %v", ttl, h.Rest, err)
		}
	}
	refresh(other, time.Minute)
	if !poll(aWhile, func() bool { return stored() == 3 }) {
		t.Fatalf("stored %d times after the top-up", stored())
	}
	_, locks, err := q.Scan(t.Context(), 0, "job", 1000)
	sum := sha256.Sum256(value)
	want := "adopted " + hex.EncodeToString(sum[:])[:8]
	if err != nil || len(locks) != 1 || locks[0].Owner != want || !locks[0].Adopted {
		t.Errorf("%+v, %v, want %s", locks, err, want)
	}
	refresh(q, 20*time.Second)
	refresh(other, 40*time.Second)
	refresh(other, 10*time.Second)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	_ = q.Close(ctx)
	_ = other.Close(ctx)
	again := dialQuorum(t, addrs)
	refresh(again, 30*time.Second)
	same := Request{Key: "job", Value: r.Value, TTL: time.Second}
	if lease, err := again.Acquire(t.Context(), same); !errors.Is(err, ErrHeld) {
		t.Errorf("%+v, %v, want that it is held", lease, err)
	}
	if held, err := released(t, again, r); !held || err != nil {
		t.Errorf("released: %v, %v", held, err)
	}
	if held, err := released(t, again, r); held || err != nil {
		t.Errorf("released again: %v, %v", held, err)
	}
}
