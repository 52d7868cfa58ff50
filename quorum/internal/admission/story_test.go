package admission

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// story is a world with what tests of one course of events need.
type story struct {
	*testing.T
	*world
}

func newStory(t *testing.T, n int) *story {
	s := &story{t, newWorld(1, n)}
	s.prompt = true
	return s
}

// begin is start, and long enough for all that is up to be evaluated.
func (s *story) begin(change ...func(*Options)) *wProxy {
	p := s.start(change...)
	s.settle(time.Second)
	return p
}

// want fails unless p sees the masters in these states, by first letters: voting, quarantined,
// refused, down.
func (s *story) want(p *wProxy, when, states string) {
	s.Helper()
	if got := p.states(); got != states {
		s.Errorf("%s: masters are %s for proxy %d, want %s: %v\n%s", when, got, p.n, states, p.reasons(), s.text())
	}
}

// wantReason fails unless the reason of a master says so.
func (s *story) wantReason(p *wProxy, i int, says string) {
	s.Helper()
	if r := p.lanes[i].reason; r == nil || !strings.Contains(r.Error(), says) {
		s.Errorf("master %d: %v, want %q", i, r, says)
	}
}

func (p *wProxy) reasons() (all []string) {
	for i := range p.lanes {
		all = append(all, fmt.Sprint(p.lanes[i].reason))
	}
	return all
}

// lock locks for p on those masters only, and reports whether that was granted.
func (s *story) lock(p *wProxy, ttl time.Duration, on ...int) bool {
	before := s.grants
	p.acquireOn(ttl, on...)
	return s.grants > before
}

// mustLock fails unless the lock is granted on those masters.
func (s *story) mustLock(p *wProxy, ttl time.Duration, on ...int) uint64 {
	s.Helper()
	if !s.lock(p, ttl, on...) {
		s.Errorf("not granted on %v: masters are %s: %v\n%s", on, p.states(), p.reasons(), s.text())
	}
	return s.fence
}

// kill ends p, and starts another proxy without any knowledge.
func (s *story) end(p *wProxy) {
	for i, q := range s.proxies {
		if q == p {
			s.proxies = append(s.proxies[:i:i], s.proxies[i+1:]...)
			return
		}
	}
}

// admit is LOCKPROXY ADMIT.
func (s *story) admit(p *wProxy, i int) {
	s.Helper()
	server := p.lanes[i].server
	c, ok, err := p.g.Adopt(i, server.probe(s.now), s.now)
	if err != nil {
		s.Errorf("ADMIT %d: %v", i, err)
	}
	if ok {
		_, _ = server.admit(&c)
	}
	s.settle(time.Second)
}

// wait is how long a master is kept out of the vote.
var wait = hold(wMaxTTL)
