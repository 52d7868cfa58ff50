package quorum

import (
	"context"
	"fmt"
	"net"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// sim is n fake masters in a synctest bubble.
type sim struct {
	t       *testing.T
	masters []*fakeMaster
}

func newSim(t *testing.T, n int) *sim {
	s := &sim{t: t}
	for i := range n {
		s.masters = append(s.masters, newFakeMaster(fmt.Sprintf("run-%d", i)))
	}
	return s
}

// quorum starts a Quorum in front of the masters, without the restart guard, and waits until each was reached or not. It is
// closed at the end.
func (s *sim) quorum(change ...func(*Options)) *Quorum {
	s.t.Helper()
	q := s.begin(change...)
	if err := q.WaitReady(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
	synctest.Wait()
	return q
}

// begin is quorum without waiting.
func (s *sim) begin(change ...func(*Options)) *Quorum {
	s.t.Helper()
	o := Options{KeyPrefix: "lock:", MasterTimeout: 50 * time.Millisecond, MaxTTL: time.Minute, Fencing: true, Guard: GuardOff}
	for i, m := range s.masters {
		o.Masters = append(o.Masters, MasterOptions{Name: fmt.Sprintf("10.0.0.%d:6379", i+1), Addr: "10.0.0.1:6379", Dial: m.dial})
	}
	for _, f := range change {
		f(&o)
	}
	q, err := New(o)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		for _, m := range s.masters {
			m.resume()
		}
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_ = q.Close(ctx)
		for _, m := range s.masters {
			m.stop()
		}
		time.Sleep(2 * time.Second) // what the masters still had to do
	})
	return q
}

// nearTo makes a Quorum reach the masters from, ... to-1 at once and the others a millisecond later.
func (s *sim) nearTo(from, to int) func(*Options) {
	return func(o *Options) {
		for i, m := range s.masters {
			if i < from || i >= to {
				o.Masters[i].Dial = func(ctx context.Context, _, _ string) (net.Conn, error) { return m.dialFar(ctx, time.Millisecond) }
			}
		}
	}
}

// each calls f for the masters from, from+1, ... to-1.
func (s *sim) each(from, to int, f func(*fakeMaster)) {
	for _, m := range s.masters[from:to] {
		f(m)
	}
}

// noKeys fails unless every master is empty.
func (s *sim) noKeys(when string) {
	s.t.Helper()
	for i, m := range s.masters {
		if n, _ := m.holds("", ""); n != 0 {
			s.t.Errorf("%s: %d keys left on master %d, want 0", when, n, i+1)
		}
	}
}

func mustAcquire(t *testing.T, q *Quorum, key string, ttl time.Duration) Lease {
	t.Helper()
	lease, err := q.Acquire(t.Context(), Request{Key: key, TTL: ttl})
	if err != nil {
		t.Fatalf("Acquire(%q): %v", key, err)
	}
	return lease
}

func mustRelease(t *testing.T, q *Quorum, key string, token Token) {
	t.Helper()
	if ok, err := q.Release(t.Context(), key, token); !ok || err != nil {
		t.Fatalf("Release(%q) = %v, %v, want true", key, ok, err)
	}
}

// quorumOf is another proxy's Quorum that reaches only the first masters.
func (s *sim) quorumOf(reach int) *Quorum {
	return s.quorum(func(o *Options) {
		for i := reach; i < len(o.Masters); i++ {
			o.Masters[i].Dial = func(context.Context, string, string) (net.Conn, error) { return nil, syscall.ECONNREFUSED }
		}
	})
}
