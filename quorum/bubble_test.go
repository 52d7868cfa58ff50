package quorum

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/quorum/internal/fake"
	"lockproxy/quorum/internal/wire"
)

// sim is n fake masters in a synctest bubble.
type sim struct {
	t       *testing.T
	masters []*fake.Master
}

func newSim(t *testing.T, n int) *sim {
	s := &sim{t: t}
	for i := range n {
		s.masters = append(s.masters, fake.New(fmt.Sprintf("run-%d", i)))
	}
	return s
}

// quorum starts a Quorum in front of the masters, without the restart guard, and waits until each
// was reached or not. It is closed at the end.
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
	o := Options{KeyPrefix: "lock:", MasterTimeout: 50 * time.Millisecond, MaxTTL: time.Minute, Fencing: true,
		Guard: GuardOff}
	for i, m := range s.masters {
		o.Masters = append(o.Masters, MasterOptions{Name: fmt.Sprintf("10.0.0.%d:6379", i+1), Addr: "10.0.0.1:6379",
			Dial: m.Dial})
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
			m.Resume()
		}
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_ = q.Close(ctx)
		for _, m := range s.masters {
			m.Stop()
		}
		time.Sleep(2 * time.Second) // for the masters to finish
	})
	return q
}

// nearTo makes a Quorum reach the masters from, ... to-1 at once and the others a millisecond
// later.
func (s *sim) nearTo(from, to int) func(*Options) {
	return func(o *Options) {
		for i, m := range s.masters {
			if i < from || i >= to {
				o.Masters[i].Dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
					return m.DialFar(ctx, time.Millisecond)
				}
			}
		}
	}
}

// each calls f for the masters from, from+1, ... to-1.
func (s *sim) each(from, to int, f func(*fake.Master)) {
	for _, m := range s.masters[from:to] {
		f(m)
	}
}

// noKeys fails unless every master is empty.
func (s *sim) noKeys(when string) {
	s.t.Helper()
	for i, m := range s.masters {
		if n, _ := m.Holds("", ""); n != 0 {
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
	if ok, err := q.Release(t.Context(), []string{key}, token, 0); !ok || err != nil {
		t.Fatalf("Release(%q) = %v, %v, want true", key, ok, err)
	}
}

// quorumOf is another proxy's Quorum that reaches only the first masters.
func (s *sim) quorumOf(reach int) *Quorum {
	return s.quorum(func(o *Options) {
		for i := reach; i < len(o.Masters); i++ {
			o.Masters[i].Dial = func(context.Context, string, string) (net.Conn, error) {
				return nil, syscall.ECONNREFUSED
			}
		}
	})
}

// at returns the value of a key on a master.
func at(m *fake.Master, key string) (l fake.Lock, stands bool) {
	m.Set(func() { l, stands = m.Lock(key) })
	return l, stands
}

func empty(m *fake.Master) { m.Set(m.DeleteAll) }

// delayed makes a master take d for every packet that has an operation of that name.
func delayed(m *fake.Master, name string, d time.Duration) {
	m.Set(func() {
		m.Hook = func(c *fake.Command) (time.Duration, string) {
			if c.Is(name) {
				return d, ""
			}
			return 0, ""
		}
	})
}

// answering makes a master answer operations of that name so, without carrying them out.
func answering(m *fake.Master, name, text string) {
	m.Set(func() {
		m.Fault = func(c fake.Call) string {
			for i := range c.By.Ops {
				op := &c.By.Ops[i]
				if text == "" || op.Name != name || op.Key != c.Key() {
					continue
				}
				// A packet may also have a release of that key, which does not set it.
				ours := func(arg string) bool { return strings.HasPrefix(arg, op.Secret()) }
				if name != "acquire" || slices.ContainsFunc(c.Args, ours) {
					return strings.TrimSpace(text[1:])
				}
			}
			return ""
		}
	})
}

func field(key string) string { return strconv.Itoa(int(wire.CounterOf(key))) }

func setCounter(m *fake.Master, key string, n uint64) { m.Set(func() { m.SetCounter(field(key), n) }) }

func counter(m *fake.Master, key string) (n uint64) {
	m.Set(func() { n = m.Counter(field(key)) })
	return n
}

// inBubble runs f in a bubble of its own.
func inBubble(t *testing.T, n int, f func(t *testing.T, s *sim)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, newSim(t, n)) })
}
