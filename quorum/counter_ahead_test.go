package quorum

import (
	"context"
	"maps"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/quorum/internal/fake"
	"lockproxy/quorum/internal/wire"
)

// high is a wrong counter, near 2^53.
const high = 9007199254740000

// locksOfJob has a lock of each kind. All use the counter of job.
var locksOfJob = map[string]Request{
	"plain":         {Key: "job"},
	"waiting":       {Key: "job", Waits: time.Second},
	"shared":        {Key: "job", Mode: Shared},
	"limit":         {Key: "job", Mode: Limited, Limit: 3},
	"keys":          {Key: "job", Keys: []string{"one", "two"}},
	"keys, another": {Key: "one", Keys: []string{"two", "job"}},
}

func fieldsOf(r Request) (fields []string) {
	for _, key := range append([]string{r.Key}, r.Keys...) {
		fields = append(fields, field("lock:"+key))
	}
	return fields
}

// If a counter is far ahead on one master, the other two grant the lock, in a second fencing
// round if their counters differ. The number spreads neither to another counter nor to the floors.
func TestCounterAheadOfClock(t *testing.T) {
	for name, r := range locksOfJob {
		for by, bad := range map[string]func() uint64{
			"two days ahead": func() uint64 { return wire.FenceLimit(time.Now().Add(24 * time.Hour)) },
			"near 2^53":      func() uint64 { return high },
			"2^53-2":         func() uint64 { return 1<<53 - 2 },
			"2^53-1":         func() uint64 { return 1<<53 - 1 },
		} {
			t.Run(name+"/"+by, func(t *testing.T) {
				inBubble(t, 3, func(t *testing.T, s *sim) {
					locksBesideBadCounter(t, s, r, bad(), name == "plain")
				})
			})
		}
	}
}

// locksBesideBadCounter acquires, extends and releases r while the counter of job on the first
// master is bad. Fences must follow the counters of the others.
func locksBesideBadCounter(t *testing.T, s *sim, r Request, bad uint64, share bool) {
	t.Helper()
	q := s.quorum()
	setCounter(s.masters[0], "lock:job", bad)
	setCounter(s.masters[1], "lock:job", 5)
	setCounter(s.masters[2], "lock:job", 9)
	r.TTL = 10 * time.Second
	for last := uint64(9); last < 12; {
		last = fenceAfter(t, q, r, last, share)
	}
	s.smallCounters(bad)
	if n := q.floor.Top(); n > 100 {
		t.Errorf("the proxy knows of %d", n)
	}
	s.masters[0].Set(func() {
		for f := range maps.Collect(s.masters[0].Counters()) {
			s.masters[0].SetCounter(f, 0)
		}
	})
	s.each(2, 3, (*fake.Master).Pause) // both others are needed
	r.TTL = time.Second
	lease, err := q.Acquire(t.Context(), r)
	if err != nil || lease.Token.Fence > 100 {
		t.Errorf("with the first master wiped: %+v, %v", lease, err)
	}
}

// fenceAfter acquires, extends and releases r, and returns the fence. It must follow last.
func fenceAfter(t *testing.T, q *Quorum, r Request, last uint64, share bool) uint64 {
	t.Helper()
	keys := append([]string{r.Key}, r.Keys...)
	lease, err := q.Acquire(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	if f := lease.Token.Fence; f <= last || f > last+2 { // a shared lock counts once more
		t.Fatalf("fence %d after %d", f, last)
	}
	synctest.Wait()
	if _, err := q.Extend(t.Context(), keys, lease.Token, r.TTL,
		share); err != nil {
		t.Errorf("extend: %v", err)
	}
	time.Sleep(5 * time.Second) // top-ups are tried again
	if ok, err := q.Release(t.Context(), keys, lease.Token,
		0); !ok || err != nil {
		t.Errorf("release: %v, %v", ok, err)
	}
	synctest.Wait()
	return lease.Token.Fence
}

// smallCounters fails if a counter is high, except the counter of job on the first master. That
// one must still be bad.
func (s *sim) smallCounters(bad uint64) {
	s.t.Helper()
	for i, m := range s.masters {
		m.Set(func() {
			for f, n := range m.Counters() {
				if i == 0 && f == field("lock:job") {
					if n != bad {
						s.t.Errorf("the counter that was %d is %d", bad, n)
					}
				} else if n > 100 {
					s.t.Errorf("master %d: counter %s is %d", i+1, f, n)
				}
			}
		})
	}
}

// If the counter is far ahead on a majority, Acquire fails and the error gives the reason.
func TestCountersAheadOfClock(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, s *sim) {
		q := s.quorum()
		s.each(0, 2, func(m *fake.Master) { setCounter(m, "lock:job", high) })
		_, err := q.Acquire(t.Context(), Request{Key: "job", TTL: time.Second})
		if err == nil || !strings.Contains(err.Error(), "a fencing counter is more than a day ahead of the clock") {
			t.Errorf("%v", err)
		}
		synctest.Wait()
		s.noKeys("after it")
	})
}

// A master with a wrong counter and a wrong clock grants. The other masters refuse its number, and
// the number does not become a floor.
func TestCounterAndClockAhead(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, s *sim) {
		q := s.quorum()
		s.masters[0].Set(func() { s.masters[0].Ahead = 100 * 365 * 24 * time.Hour })
		setCounter(s.masters[0], "lock:job", wire.FenceLimit(time.Now().Add(72*time.Hour)))
		_, _ = q.Acquire(t.Context(), Request{Key: "job", TTL: time.Second})
		time.Sleep(2 * time.Second)
		s.each(1, 3, func(m *fake.Master) {
			if n := counter(m, "lock:job"); n > 100 {
				t.Errorf("it has spread: %d", n)
			}
		})
		if n := q.floor.Top(); n > 100 {
			t.Errorf("the proxy knows of %d", n)
		}
	})
}

// TestCounterAheadOfClock on real servers, which also wipes the master.
func TestCounterAheadOnServers(t *testing.T) {
	for name, r := range locksOfJob {
		t.Run(name, func(t *testing.T) {
			servers, addrs := startMasters(t, 3)
			q := dialQuorum(t, addrs)
			job := field("lock:job")
			if err := servers[0].HSet(t.Context(), testState, job, high).Err(); err != nil {
				t.Fatal(err)
			}
			for range 5 {
				lockUnder(t, q, r, 1000)
			}
			waitDrained(t, []*Quorum{q})
			if n := servers[0].HGet(t.Context(), testState, job).Val(); n != strconv.Itoa(high) {
				t.Errorf("the counter is %s", n)
			}
			wantOtherCountersUnder(t, servers[0], r, job, 1000)
			wantCountersUnder(t, servers[1:], 1000)
			if err := servers[0].FlushAll(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
			for range 5 {
				lockUnder(t, q, r, 1000)
			}
			waitDrained(t, []*Quorum{q})
			wantCountersUnder(t, servers, 1000)
		})
	}
}

// wantOtherCountersUnder fails if a counter of r on the server, beside the bad one, exceeds limit.
func wantOtherCountersUnder(t *testing.T, s *redisServer, r Request, bad string, limit int) {
	t.Helper()
	for _, f := range fieldsOf(r) {
		if n, _ := s.HGet(t.Context(), testState, f).Int(); f != bad && n > limit {
			t.Errorf("counter %s beside it is %d", f, n)
		}
	}
}

// lockUnder acquires and releases r, with a fence of at most limit.
func lockUnder(t *testing.T, q *Quorum, r Request, limit uint64) {
	t.Helper()
	lease := grantedOf(t, q, r)
	if lease.Token.Fence > limit {
		t.Errorf("fence %d", lease.Token.Fence)
	}
	if held, err := q.Release(t.Context(), append([]string{r.Key}, r.Keys...), lease.Token, 0); !held || err != nil {
		t.Errorf("release: %v, %v", held, err)
	}
}

// wantCountersUnder fails if a counter on a server exceeds limit.
func wantCountersUnder(t *testing.T, servers []*redisServer, limit int) {
	t.Helper()
	for _, s := range servers {
		for f, text := range s.HGetAll(context.Background(), testState).Val() {
			if n, err := strconv.Atoi(text); err == nil && n > limit {
				t.Errorf("%s: counter %s is %d", s.addr, f, n)
			}
		}
	}
}
