package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/quorum"
)

// simLocker is one lock in virtual time: asking takes a millisecond.
type simLocker struct {
	mu       sync.Mutex
	until    time.Time // held until then
	asked    int
	grants   []string      // owners, in the order granted
	err      error         // instead of an answer
	confirm  time.Duration // how long Watch takes
	watches  int           // running
	released func(id string)
}

// AcquireAsync is Acquire on a goroutine of its own.
func (s *simLocker) AcquireAsync(r quorum.Request, done func(quorum.Lease, error)) (leave func() bool) {
	go func() { done(s.Acquire(context.Background(), r)) }()
	return nil
}

func (*simLocker) Flush() {}

func (s *simLocker) Acquire(_ context.Context, r quorum.Request) (quorum.Lease, error) {
	time.Sleep(time.Millisecond)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	now := time.Now()
	switch {
	case s.err != nil:
		return quorum.Lease{}, s.err
	case s.until.After(now):
		return quorum.Lease{}, &quorum.HeldError{Free: s.until.Sub(now)}
	}
	s.until = now.Add(r.TTL)
	s.grants = append(s.grants, r.Owner)
	return quorum.Lease{Token: quorum.Token{Secret: r.Owner}, Validity: r.TTL}, nil
}

func (s *simLocker) Watch(ctx context.Context, _ string, released func(id string)) func() {
	select {
	case <-time.After(max(s.confirm, time.Millisecond)):
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watches++
	s.released = released
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.watches--
	}
}

// tell sends the message of one master.
func (s *simLocker) tell(id string) {
	s.mu.Lock()
	released := s.released
	s.mu.Unlock()
	released(id)
}

func (s *simLocker) set(until time.Time, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.until, s.err = until, err
}

func (s *simLocker) count() (asked, watches int, grants []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked, s.watches, slices.Clone(s.grants)
}

// crowd is clients that wait in one queue.
type crowd struct {
	t    *testing.T
	ls   *Queues
	lock *simLocker
	wg   sync.WaitGroup
	mu   sync.Mutex
	out  map[string]outcomeAt
}

type outcomeAt struct {
	err error
	at  time.Duration // since the start of the bubble
}

func inQueue(t *testing.T, f func(q *crowd)) {
	synctest.Test(t, func(t *testing.T) {
		lock := &simLocker{}
		q := &crowd{t: t, lock: lock, ls: New(lock, lock, 5, 2000, time.Minute), out: make(map[string]outcomeAt)}
		f(q)
		q.wg.Wait()
		if _, watches, _ := lock.count(); watches != 0 || len(q.ls.byKey) != 0 || q.ls.waiting != 0 {
			t.Errorf("left: %d subscriptions, %d lines, %d waiters", watches, len(q.ls.byKey), q.ls.waiting)
		}
	})
}

var bubbleStart = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// join lets a client called name wait; it keeps the lock for hold and then releases it (negative:
// never). The client of the next call joins after it.
func (q *crowd) join(name string, timeout, hold time.Duration) (leave func()) {
	disconnected := make(chan struct{})
	q.wg.Go(func() {
		lease, err := q.ls.Wait(context.Background(), disconnected, timeout, nil,
			quorum.Request{Key: "job", TTL: 10 * time.Second, Owner: name})
		q.mu.Lock()
		q.out[name] = outcomeAt{err, time.Since(bubbleStart)}
		q.mu.Unlock()
		if err == nil && hold >= 0 {
			time.Sleep(hold)
			q.lock.set(time.Time{}, nil)
			q.ls.Released("job", lease.Token.Secret)
		}
	})
	synctest.Wait()
	return func() { close(disconnected); synctest.Wait() }
}

func (q *crowd) result(name string) outcomeAt {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.out[name]
}

func TestQueueOrder(t *testing.T) {
	inQueue(t, func(q *crowd) {
		q.lock.set(time.Now().Add(5*time.Second), nil)
		q.join("a", 0, 100*time.Millisecond)
		leave := q.join("b", 0, 100*time.Millisecond)
		for _, name := range []string{"c", "d", "e"} {
			q.join(name, 0, 100*time.Millisecond)
		}
		time.Sleep(time.Second)
		leave()
		q.wg.Wait()
		if _, _, grants := q.lock.count(); !slices.Equal(grants, []string{"a", "c", "d", "e"}) {
			t.Errorf("granted to %v", grants)
		}
		if err := q.result("b").err; err != ErrDisconnected {
			t.Errorf("b ended with %v", err)
		}
	})
}

// TestQueueAsksLittle: a thousand waiters ask the masters no more than one would (bug B23), and
// are served in order.
func TestQueueAsksLittle(t *testing.T) {
	inQueue(t, func(q *crowd) {
		q.lock.set(time.Now().Add(9500*time.Millisecond), nil)
		var want []string
		for i := range 1000 {
			name := fmt.Sprintf("%04d", i)
			want = append(want, name)
			q.join(name, 0, time.Millisecond)
		}
		time.Sleep(9 * time.Second)
		if asked, _, _ := q.lock.count(); asked > 12 {
			t.Errorf("the masters were asked %d times in 9s, want about once a second", asked)
		}
		q.wg.Wait()
		asked, _, grants := q.lock.count()
		if !slices.Equal(grants, want) {
			t.Error("not served in the order they came")
		}
		if asked > 1000+20 {
			t.Errorf("asked %d times for 1000 grants", asked)
		}
	})
}

func TestQueueExpiry(t *testing.T) {
	inQueue(t, func(q *crowd) {
		q.lock.set(time.Now().Add(700*time.Millisecond), nil)
		q.join("a", 0, -1)
		q.wg.Wait()
		if got := q.result("a"); got.err != nil || got.at < 700*time.Millisecond || got.at > 710*time.Millisecond {
			t.Errorf("got %v at %v, want a grant within 10ms of the expiry at 700ms", got.err, got.at)
		}
	})
}

// TestQueueForeignRelease: a release through another proxy wakes the head, once for all masters
// that send a message (bug B19).
func TestQueueForeignRelease(t *testing.T) {
	inQueue(t, func(q *crowd) {
		q.lock.set(time.Now().Add(10*time.Second), nil)
		q.join("a", 0, -1)
		time.Sleep(100 * time.Millisecond)
		before, _, _ := q.lock.count()
		q.lock.set(time.Time{}, nil)
		for range 5 {
			q.lock.tell("0123456789abcdef")
		}
		q.wg.Wait()
		after, _, _ := q.lock.count()
		if got := q.result("a"); got.err != nil || got.at > 105*time.Millisecond || after != before+1 {
			t.Errorf("got %v at %v, asked %d times", got.err, got.at, after-before)
		}
	})
}

// TestQueueEarlyMessage: the message of the first master comes before a majority has released. The
// leader tries again after the messages of a majority, and soon enough if these never come.
func TestQueueEarlyMessage(t *testing.T) {
	for _, tell := range []int{5, 2} {
		inQueue(t, func(q *crowd) {
			q.lock.set(time.Now().Add(10*time.Second), nil)
			q.join("a", 0, -1)
			time.Sleep(100 * time.Millisecond)
			for i := range tell {
				time.AfterFunc(time.Duration(5*i)*time.Millisecond, func() { q.lock.tell("0123456789abcdef") })
			}
			time.AfterFunc(9*time.Millisecond, func() { q.lock.set(time.Time{}, nil) })
			q.wg.Wait()
			limit := 112 * time.Millisecond // the third word, and a try
			if tell < 3 {
				limit = 125 * time.Millisecond
			}
			if got := q.result("a"); got.err != nil || got.at > limit {
				t.Errorf("%d masters tell: got %v at %v, want the lock by %v", tell, got.err, got.at, limit)
			}
		})
	}
}

// TestQueueSubscribesThenTries: the second try finds a release between the first one and the
// subscription.
func TestQueueSubscribesThenTries(t *testing.T) {
	inQueue(t, func(q *crowd) {
		q.lock.set(time.Now().Add(10*time.Second), nil)
		// after the first try, before the subscription
		time.AfterFunc(1500*time.Microsecond, func() { q.lock.set(time.Time{}, nil) })
		q.join("a", 0, -1)
		q.wg.Wait()
		if got := q.result("a"); got.err != nil || got.at > 5*time.Millisecond {
			t.Errorf("got %v at %v", got.err, got.at)
		}
	})
}

func TestQueueTimeouts(t *testing.T) {
	noQuorum := &quorum.NoQuorumError{N: 3, Needed: 2}
	for _, tt := range []struct {
		name    string
		lockErr error
		timeout time.Duration
		want    error
		at      time.Duration
	}{
		{"held", nil, 300 * time.Millisecond, ErrTimeout, 300 * time.Millisecond},
		{"no quorum", noQuorum, 300 * time.Millisecond, quorum.ErrNoQuorum, 300 * time.Millisecond},
		{"no quorum, no limit", noQuorum, 0, quorum.ErrNoQuorum, time.Minute},
		{"late", quorum.ErrLate, 300 * time.Millisecond, ErrTimeout, 300 * time.Millisecond},
		{"late, no limit", quorum.ErrLate, 0, quorum.ErrLate, time.Minute},
		{"busy", quorum.ErrBusy, 300 * time.Millisecond, ErrTimeout, 300 * time.Millisecond},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inQueue(t, func(q *crowd) {
				q.lock.set(time.Now().Add(time.Hour), tt.lockErr)
				q.join("head", tt.timeout, -1)
				q.join("second", tt.timeout, -1)
				q.wg.Wait()
				for _, who := range []string{"head", "second"} {
					if got := q.result(who); !errors.Is(got.err, tt.want) || got.at < tt.at || got.at > tt.at+2*time.Second &&
						tt.timeout == 0 || tt.timeout > 0 && got.at > tt.at+2*time.Millisecond {
						t.Errorf("%s, %s: got %v at %v, want %v at %v", tt.name, who, got.err, got.at, tt.want, tt.at)
					}
				}
				if asked, _, _ := q.lock.count(); tt.lockErr != nil && asked > 100 {
					t.Errorf("%s: asked %d times: the delay does not grow", tt.name, asked)
				}
			})
		})
	}
}

// TestQueueYieldsToPeers: after 16 hand-overs in a row others get a chance.
func TestQueueYieldsToPeers(t *testing.T) {
	inQueue(t, func(q *crowd) {
		for i := range 40 {
			q.join(fmt.Sprint(i), 0, 0)
		}
		q.wg.Wait()
		pauses := 0
		for i := 1; i < 40; i++ {
			if q.result(fmt.Sprint(i)).at-q.result(fmt.Sprint(i-1)).at >= peerPause/2 {
				pauses++
			}
		}
		if pauses != 2 {
			t.Errorf("%d pauses in 40 hand-overs, want 2", pauses)
		}
	})
}

func TestQueueLimits(t *testing.T) {
	inQueue(t, func(q *crowd) {
		q.ls.max = 2
		q.lock.set(time.Now().Add(time.Hour), nil)
		q.join("a", 0, -1)
		q.join("b", 0, -1)
		q.join("c", 0, -1)
		if err := q.result("c").err; err != ErrFull {
			t.Errorf("the third got %v", err)
		}
		q.ls.Drain()
		q.wg.Wait()
		for _, who := range []string{"a", "b"} {
			if err := q.result(who).err; err != ErrDraining {
				t.Errorf("%s got %v from the drain", who, err)
			}
		}
	})
}
