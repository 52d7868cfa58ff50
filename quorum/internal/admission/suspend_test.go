package admission

import (
	"testing"
	"time"
)

// TestSuspendedWhileMastersRestart: a proxy was suspended, or its machine was, while the masters
// were admitted again one by one. To its monotonic clock they voted just now.
func TestSuspendedWhileMastersRestart(t *testing.T) {
	s := newStory(t, 3)
	p, q := s.begin(), s.begin()
	s.settle(2 * time.Second)
	for i := range q.lanes {
		q.disconnect(i)
	}
	s.end(q)
	began := s.now
	for i := range s.masters {
		s.masters[i].flush()
		s.settle(wait + 5*time.Second)
		s.want(p, "one after the other", "vvv")
	}
	q.skew -= s.now.Sub(began)
	q.g.Slept(s.now.Sub(began))
	s.proxies = append(s.proxies, q)
	s.settle(3 * time.Second)
	s.want(p, "the other woke up", "vvv")
}

// Answers of other masters from before a suspend of the proxy are no evidence after it, although
// they are fresh by the monotonic clock.
func TestEvidenceBeforeSuspend(t *testing.T) {
	s := newStory(t, 3)
	p, q := s.begin(), s.begin()
	s.settle(2 * time.Second)
	s.move(0, false) // the second proxy's connection stays
	p.disconnect(0)
	s.end(q)
	began := s.now
	s.settle(2 * wait)
	s.mustLock(p, 8*time.Second, 0, 2)
	q.skew -= s.now.Sub(began)
	q.g.Slept(s.now.Sub(began))
	for i := range q.lanes {
		q.lanes[i].until = time.Time{} // the lanes know that they were suspended
	}
	q.probe(0) // this master is the first to answer
	m := q.lanes[0].queue[0]
	q.lanes[0].queue = nil
	m.run(q.lanes[0].server)
	m.done(false)
	if s.lock(q, time.Second, 0, 1); s.wrong != "" {
		t.Error(s.wrong)
	}
}
