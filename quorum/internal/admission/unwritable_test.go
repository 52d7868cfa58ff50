package admission

import (
	"testing"
	"time"
)

// answerOne lets a master answer the oldest thing that a proxy has sent to it.
func (p *wProxy) answerOne(i int) {
	l := &p.lanes[i]
	m := l.queue[0]
	if m.run != nil {
		m.run(l.server)
	}
	l.queue = l.queue[1:]
	m.done(false)
}

// An answer that is lost with its connection is no sign that the master cannot be written: it may
// vote for other proxies, and must learn before a wait ends.
func TestLostAnswerIsNoRefusal(t *testing.T) {
	for _, lost := range []string{"change", "tell"} {
		t.Run(lost, func(t *testing.T) {
			s := newStory(t, 3)
			p, q := s.begin(), s.begin()
			s.settle(2 * time.Second)
			b := s.masters[1]
			if lost == "change" { // it restarts with all its data; q admits it
				b.durable = true
				s.settle(3 * time.Second)
				b.run++
				p.disconnect(1)
				q.lanes[1].cut = true
				q.disconnect(1)
				p.connect(1)
				p.answerOne(1)
				b.hangs = p
				p.disconnect(1)
				q.lanes[1].cut = false
				s.settle(3 * time.Second)
				s.want(q, "admitted again", "vvv")
			}
			b.hangs = p
			s.masters[0] = s.other // the address leads here for p; q stays on the old one
			p.disconnect(0)
			q.lanes[2].cut = true
			q.disconnect(2)
			s.settle(9 * time.Second)
			b.hangs = nil
			if p.lanes[1].up {
				p.disconnect(1)
			}
			p.connect(1)
			p.answerOne(1) // the observation; then it hangs once more
			b.hangs = p
			s.settle(wait)
			s.mustLock(q, 9*time.Second, 0, 1)
			b.hangs = nil
			s.settle(500 * time.Millisecond)
			if s.lock(p, 5*time.Second, 0, 2); s.wrong != "" {
				t.Error(s.wrong)
			}
		})
	}
}

// While a master refuses writes it grants no lock and need not learn. When it takes writes again,
// the wait begins anew. While it is away, others wait for its counters.
func TestWritableAgain(t *testing.T) {
	for _, away := range []bool{false, true} {
		s := newStory(t, 3)
		p, q := s.begin(), s.begin()
		s.settle(2 * time.Second)
		b := s.masters[1]
		b.broken = true
		s.masters[0] = s.other
		p.disconnect(0)
		q.lanes[2].cut = true
		q.disconnect(2)
		s.settle(14 * time.Second)
		if p.lanes[1].cut = away; away {
			p.disconnect(1)
		}
		b.broken = false
		s.mustLock(q, 9*time.Second, 0, 1)
		q.lanes[1].cut = true
		q.disconnect(1)
		s.settle(3 * time.Second)
		if s.lock(p, 5*time.Second, 0, 2); s.wrong != "" {
			t.Errorf("away %v: %s", away, s.wrong)
		}
		p.lanes[1].cut = false
		s.settle(wait + 4*time.Second)
		s.want(p, "told, and waited for", "vvv")
	}
}

// The wait also begins anew if another proxy teaches a master that takes writes again.
func TestWritableAgainAndToldByAnother(t *testing.T) {
	s := newStory(t, 3)
	p, q := s.begin(), s.begin()
	s.settle(2 * time.Second)
	b := s.masters[1]
	b.broken = true
	s.masters[0] = s.other
	p.disconnect(0)
	q.lanes[2].cut = true
	q.disconnect(2)
	s.settle(14 * time.Second)
	p.lanes[1].cut = true
	p.disconnect(1)
	b.broken = false
	s.mustLock(q, 9*time.Second, 0, 1)
	q.lanes[1].cut = true
	q.disconnect(1)
	s.begin()
	p.lanes[1].cut = false
	s.settle(3 * time.Second)
	if s.lock(p, 5*time.Second, 0, 2); s.wrong != "" {
		t.Error(s.wrong)
	}
	s.settle(wait + 3*time.Second)
	s.want(p, "after the wait", "vvv")
}

// A master that was found without its memory does not have it later, even if it says so.
func TestDurableTooLate(t *testing.T) {
	for _, again := range []bool{false, true} {
		durableTooLate(t, again)
	}
}

// durableTooLate: again says that it restarts once more before it can be written.
func durableTooLate(t *testing.T, again bool) {
	s := newStory(t, 3)
	b := s.masters[1]
	b.durable = true
	p := s.begin()
	s.settle(3 * time.Second)
	old := b.disk()
	s.mustLock(p, 9*time.Second, 0, 1)
	b.run++
	b.hash, b.token, b.durable, b.broken = old.hash, 0, false, true // it has read an old file, and is full
	p.disconnect(1)
	s.settle(time.Second)
	s.want(p, "restarted", "vqv")
	if b.durable, b.broken = true, false; again {
		b.run++
		p.disconnect(1)
	}
	s.settle(2500 * time.Millisecond)
	if s.lock(p, 5*time.Second, 1, 2); s.wrong != "" {
		t.Error(s.wrong)
	}
	s.settle(wait + 3*time.Second)
	s.want(p, "after the wait", "vvv")
}

// Without a mark, the loss of a master's memory is known for one connection only: before the next,
// another proxy may have admitted it.
func TestLossIsNotKnownForEver(t *testing.T) {
	s := newStory(t, 5)
	p, q := s.begin(), s.begin()
	s.settle(2 * time.Second)
	m := s.masters
	q.lanes[0].cut = true
	q.disconnect(0)
	m[0].flush()
	m[0].broken = true
	s.settle(0)
	// It is found without its memory twice, because no mark can be written.
	for p.probe(0); len(p.lanes[0].queue) > 0; {
		p.answerOne(0)
	}
	s.pass(time.Second)
	p.probe(0)
	p.answerOne(0)
	p.lanes[0].cut = true
	p.disconnect(0)
	m[0].broken = false
	q.lanes[0].cut = false
	s.settle(wait + 3*time.Second)
	s.want(q, "admitted", "vvvvv")
	m[3].flush()
	s.settle(5 * time.Second)
	m[2].flush()
	s.settle(1200 * time.Millisecond)
	p.lanes[3].cut = true
	p.disconnect(3)
	s.settle(wait - 4*time.Second)
	s.want(q, "one is back", "vvqvv")
	m[0].flush()
	p.lanes[0].cut = false
	p.connect(0)
	p.answerOne(0)
	p.evaluate()
	if p.g.masters[2].mark.noMajority {
		t.Error("a majority had its memory all the time")
	}
}
