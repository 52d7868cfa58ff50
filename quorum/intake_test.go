package quorum

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/quorum/internal/fake"
	"lockproxy/quorum/internal/wire"
)

// narrow lets n attempts run at a time from here on.
func narrow(q *Quorum, n int) {
	q.intake.mu.Lock()
	defer q.intake.mu.Unlock()
	q.intake.window = window{size: n, since: time.Now().Add(time.Hour)} // no round ends
}

// wantLoad fails unless so many acquisitions run and wait.
func wantLoad(t *testing.T, q *Quorum, running, waiting int) {
	t.Helper()
	synctest.Wait()
	if l := q.Load(); l.Running != running || l.Waiting != waiting {
		t.Errorf("%d run and %d wait, want %d and %d", l.Running, l.Waiting, running, waiting)
	}
}

// results are what asynchronous acquires returned, by key.
type results struct {
	mu sync.Mutex
	is map[string]error
}

// ask acquires a key for a minute.
func (r *results) ask(q *Quorum, key string, patience time.Duration) (leave func() bool) {
	leave = q.AcquireAsync(Request{Key: key, TTL: time.Minute, Patience: patience}, func(_ Lease, err error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.is == nil {
			r.is = make(map[string]error)
		}
		r.is[key] = err
	})
	q.Flush()
	return leave
}

// of returns the result of the acquire of key; ok is false if it has none yet.
func (r *results) of(key string) (err error, ok bool) {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	err, ok = r.is[key]
	return err, ok
}

// acquired keeps the keys whose acquires a master carries out, in order.
func acquired(m *fake.Master) (keys func() []string) {
	var all []string
	m.Set(func() {
		m.Hook = func(c *fake.Command) (time.Duration, string) {
			for i := range c.Ops {
				if c.Ops[i].Name == "acquire" {
					m.Set(func() { all = append(all, c.Ops[i].Key) })
				}
			}
			return 0, ""
		}
	})
	return func() (keys []string) {
		synctest.Wait()
		m.Set(func() { keys = slices.Clone(all) })
		return keys
	}
}

func unhurried(o *Options) { o.MasterTimeout = time.Second }

// Acquisitions beyond the window wait in order, without a request to the masters.
func TestIntakeOrder(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, s *sim) {
		q := s.quorum(unhurried)
		keys := acquired(s.masters[0])
		s.each(0, 3, (*fake.Master).Pause)
		var got results
		var want []string
		for i := range 3 * minWindow {
			key := fmt.Sprintf("k%03d", i)
			got.ask(q, key, 0)
			want = append(want, "lock:"+key)
		}
		wantLoad(t, q, minWindow, 2*minWindow)
		for i, l := range q.fleet.lanes {
			if n, _ := l.Unanswered(); n > minWindow+10 { // a probe may wait there too
				t.Errorf("%d requests wait on lane %d, want those of the window", n, i)
			}
		}
		if a := q.intake.last; a == nil || a.attempt != nil {
			t.Errorf("none waits, or one that waits has a token: %v", a)
		}
		time.Sleep(200 * time.Millisecond)
		s.each(0, 3, (*fake.Master).Resume)
		time.Sleep(10 * time.Millisecond)
		if sent := keys(); !slices.Equal(sent, want) {
			t.Errorf("sent %v", sent)
		}
		wantLoad(t, q, 0, 0)
	})
}

// An acquire that tries again after a split vote goes before new ones.
func TestIntakeRetryGoesFirst(t *testing.T) {
	inBubble(t, 4, func(t *testing.T, s *sim) {
		q := s.quorum(unhurried)
		narrow(q, 1)
		s.each(2, 4, func(m *fake.Master) {
			m.Set(func() {
				m.SetLock("lock:split", "another", 0, "", time.Now().Add(2*time.Millisecond))
			})
		})
		keys := acquired(s.masters[0])
		var got results
		got.ask(q, "split", 0)
		synctest.Wait()
		s.each(0, 4, (*fake.Master).Pause)
		for _, key := range []string{"a", "b", "c"} {
			got.ask(q, key, 0)
		}
		time.Sleep(100 * time.Millisecond)
		wantLoad(t, q, 1, 3)
		s.each(0, 4, (*fake.Master).Resume)
		time.Sleep(100 * time.Millisecond)
		if sent, want := keys(), []string{"lock:split", "lock:a", "lock:split", "lock:b",
			"lock:c"}; !slices.Equal(sent, want) {
			t.Errorf("sent %v, want %v", sent, want)
		}
		wantLoad(t, q, 0, 0)
	})
}

// A caller that gives up returns the place in every stage, and sends no more.
func TestIntakeGivesUp(t *testing.T) {
	for _, c := range []struct {
		name  string
		begin func(s *sim, q *Quorum)
		sent  int
	}{
		{"waiting to be sent", func(s *sim, q *Quorum) {
			s.each(0, 4, (*fake.Master).Pause)
			new(results).ask(q, "first", 0)
		}, 0},
		{"waiting for answers", func(s *sim, _ *Quorum) { s.each(0, 4, (*fake.Master).Pause) }, 1},
		{"pausing after a split vote", func(s *sim, _ *Quorum) {
			s.each(2, 4, func(m *fake.Master) {
				m.Set(func() { m.SetLock("lock:job", "another", 0, "", time.Now().Add(time.Hour)) })
			})
		}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, 4, func(t *testing.T, s *sim) {
				q := s.quorum(unhurried)
				narrow(q, 1)
				c.begin(s, q)
				ctx, cancel := context.WithTimeout(t.Context(), time.Microsecond)
				defer cancel()
				began, before := time.Now(), s.masters[0].Ran("acquire lock:job")
				_, err := q.Acquire(ctx, Request{Key: "job", TTL: time.Minute})
				if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Microsecond {
					t.Errorf("%v after %v, want the end of the context", err, time.Since(began))
				}
				var last results
				last.ask(q, "last", 0)
				s.each(0, 4, (*fake.Master).Resume)
				time.Sleep(100 * time.Millisecond)
				if err, ok := last.of("last"); err != nil || !ok {
					t.Errorf("the next: %v, %v", err, ok)
				}
				if n := s.masters[0].Ran("acquire lock:job") - before; n != c.sent {
					t.Errorf("%d acquires reached a master, want %d", n, c.sent)
				}
				wantLoad(t, q, 0, 0)
			})
		})
	}
}

// leave gives up an acquire before it is sent, not after.
func TestIntakeLeave(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, s *sim) {
		q := s.quorum(unhurried)
		narrow(q, 1)
		s.each(0, 3, (*fake.Master).Pause)
		var got results
		if got.ask(q, "a", 0) != nil {
			t.Error("an acquire that was sent at once can be left")
		}
		leave, late := got.ask(q, "b", 0), got.ask(q, "c", 0)
		wantLoad(t, q, 1, 2)
		if !leave() || leave() {
			t.Error("left not once")
		}
		wantLoad(t, q, 1, 1)
		s.each(0, 3, (*fake.Master).Resume)
		if err, ok := got.of("c"); err != nil || !ok || late() {
			t.Errorf("the last: %v, %v, or left after it was sent", err, ok)
		}
		if _, ok := got.of("b"); ok || s.masters[0].Ran("acquire lock:b") != 0 {
			t.Error("one that left was told, or sent")
		}
		wantLoad(t, q, 0, 0)
	})
}

// An acquire that cannot be sent within its patience fails with the number of those waiting.
func TestIntakeTimesOut(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, s *sim) {
		q := s.quorum(unhurried, func(o *Options) { o.QueueTimeout = 100 * time.Millisecond })
		narrow(q, 1)
		s.each(0, 3, (*fake.Master).Pause)
		var got results
		got.ask(q, "asks", 0)
		got.ask(q, "default", 0)
		got.ask(q, "short", 30*time.Millisecond)
		validity := time.Duration(0)
		q.AcquireAsync(Request{Key: "for ever", TTL: 10 * time.Second, Patience: -1},
			func(l Lease, _ error) { validity = l.Validity })
		for _, c := range []struct {
			after   time.Duration
			key     string
			waiting int
		}{{30 * time.Millisecond, "short", 3}, {70 * time.Millisecond, "default", 2}} {
			time.Sleep(c.after - 1)
			if err, ok := got.of(c.key); ok {
				t.Errorf("%s: %v too early", c.key, err)
			}
			time.Sleep(time.Nanosecond)
			err, _ := got.of(c.key)
			if busy, ok := errors.AsType[*BusyError](err); !ok || busy.Waiting != c.waiting ||
				!errors.Is(err, ErrBusy) {
				t.Errorf("%s: %v, want %d waiting", c.key, err, c.waiting)
			}
		}
		time.Sleep(500 * time.Millisecond)
		wantLoad(t, q, 1, 1)
		s.each(0, 3, (*fake.Master).Resume)
		synctest.Wait()
		if want := 10*time.Second - drift(10*time.Second); validity != want { // the time in the queue does not count
			t.Errorf("with no end of patience: validity %v, want %v", validity, want)
		}
		if n := q.Load().TimedOut; n != 2 {
			t.Errorf("%d timed out, want 2", n)
		}
		wantLoad(t, q, 0, 0)
	})
}

// If every acquire fails at once, the waiting ones fail in turn, without recursion.
func TestIntakeFailsInTurn(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, s *sim) {
		q := s.quorum(unhurried)
		narrow(q, 1)
		s.each(0, 3, (*fake.Master).Pause)
		var mu sync.Mutex
		failed, deepest := 0, 0
		done := func(_ Lease, err error) {
			depth := runtime.Callers(0, make([]uintptr, 1000))
			mu.Lock()
			defer mu.Unlock()
			if deepest = max(deepest, depth); errors.Is(err, ErrNoQuorum) {
				failed++
			}
		}
		const many = 5000
		for i := range many {
			r := Request{Key: fmt.Sprint(i), TTL: time.Minute}
			q.AcquireAsync(r, func(lease Lease, err error) {
				done(lease, err)
				q.AcquireAsync(r, done) // while the place of the first is taken
			})
		}
		wantLoad(t, q, 1, many-1)
		s.each(0, 3, (*fake.Master).Stop)
		wantLoad(t, q, 0, 0)
		mu.Lock()
		defer mu.Unlock()
		if failed != 2*many || deepest > 50 {
			t.Errorf("%d failed, want %d; at most %d calls deep", failed, 2*many, deepest)
		}
	})
}

// Close ends waiting acquires, also those of endless patience.
func TestIntakeClose(t *testing.T) {
	for name, paused := range map[string]bool{"masters stay silent": true, "masters answer": false} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, s *sim) {
				q := s.quorum(unhurried)
				narrow(q, 1)
				s.each(0, 3, (*fake.Master).Pause)
				var got results
				for i := range 10 {
					got.ask(q, fmt.Sprint(i), -1)
				}
				wantLoad(t, q, 1, 9)
				if !paused {
					time.AfterFunc(50*time.Millisecond, func() { s.each(0, 3, (*fake.Master).Resume) })
				}
				ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
				defer cancel()
				_ = q.Close(ctx)
				for i := range 10 {
					if err, ok := got.of(fmt.Sprint(i)); !ok || i > 0 && err == nil {
						t.Errorf("acquire %d ended %v with %v", i, ok, err)
					}
				}
				wantLoad(t, q, 0, 0)
			})
		})
	}
}

// Holders go first: while their requests fill the lanes of a majority, no LOCK is sent.
func TestIntakeHoldersFirst(t *testing.T) {
	for _, c := range []struct {
		name          string
		full          int // lanes
		runs, waiting int
	}{{"one lane is full", 1, 1, 0}, {"a majority is full", 2, 0, 1}, {"all are full", 3, 0, 1}} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, s *sim) {
				q := s.quorum(unhurried)
				s.each(0, 3, (*fake.Master).Pause)
				for i := range roomOf * minWindow {
					for _, l := range q.fleet.lanes[:c.full] {
						_ = l.Ask(wire.Op{Kind: wire.Check, TokenAt: q.fleet.tokenAt(fmt.Sprint(i), Token{})}, nil)
					}
				}
				var got results
				got.ask(q, "job", 0)
				wantLoad(t, q, c.runs, c.waiting)
				time.Sleep(10 * time.Millisecond)
				wantLoad(t, q, c.runs, c.waiting)
				s.each(0, 3, (*fake.Master).Resume)
				time.Sleep(lookAfter)
				if err, ok := got.of("job"); err != nil || !ok {
					t.Errorf("%v, %v", err, ok)
				}
				wantLoad(t, q, 0, 0)
			})
		})
	}
}

// After a storm of clients that give up at random, no place is taken and no key left.
func TestIntakeStorm(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, s *sim) {
		q := s.quorum(func(o *Options) { o.QueueTimeout = 10 * time.Millisecond })
		narrow(q, 4)
		s.each(0, 3, func(m *fake.Master) { delayed(m, "acquire", time.Millisecond) })
		var clients sync.WaitGroup
		for i := range 100 {
			random := rand.New(rand.NewPCG(1, uint64(i)))
			clients.Go(func() {
				for range 20 {
					key := fmt.Sprint(random.IntN(40))
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(random.IntN(20))*time.Millisecond)
					patience := time.Duration(random.IntN(3)-1) * 5 * time.Millisecond
					lease, err := q.Acquire(ctx, Request{Key: key, TTL: time.Minute, Patience: patience})
					cancel()
					if err == nil {
						mustRelease(t, q, key, lease.Token)
					} else if errors.Is(err, ErrNoQuorum) {
						t.Error(err)
					}
				}
			})
		}
		clients.Wait()
		time.Sleep(time.Second)
		wantLoad(t, q, 0, 0)
		s.noKeys("after the storm")
	})
}
