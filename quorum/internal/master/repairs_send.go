package master

import (
	"time"

	"lockproxy/quorum/internal/wire"
)

// maxAlone is how many repairs that need a packet of their own go out at a tick. They leave room
// in the queue, even if a client unlocks forbidden keys all the time.
const maxAlone = maxUnanswered / 4

// sendAll queues the idle repairs while there is room, also the failed ones if the caller says so.
func (s *repairs) sendAll(st *status, q *queue, now time.Time, failed bool) {
	s.backlog = false
	alone := 0
	for r := range s.all {
		if r.state == repairSent || r.state == repairFailed && !failed {
			continue
		}
		if r.alone {
			if alone++; alone > maxAlone {
				continue
			}
		}
		if q.n >= maxUnanswered {
			s.backlog = true
			break
		}
		if r.ends() {
			_ = s.sendRelease(st, q, r.op, r, nil)
		} else if st.voting {
			s.sendTopUp(st, q, r, now)
		}
	}
}

// sendRelease queues a release. r is its repair; nil if it is not tried again.
func (s *repairs) sendRelease(st *status, q *queue, op wire.Op, r *repair, to Receiver) error {
	if !st.voting {
		to = nil
	}
	if op.Kind == wire.Release && r != nil && r.op.TTL > 0 { // the key stays closed after any of the releases
		op.TTL = max(time.Until(r.until).Truncate(time.Millisecond), 0)
	}
	if err := st.refusal(op.Kind, q.n); err != nil {
		s.backlog = s.backlog || r != nil && st.up
		return err
	}
	e := q.push(op, to)
	if r != nil && r.op.Kind == op.Kind {
		s.sent(r, e)
	}
	if !st.voting {
		return st.reason
	}
	return nil
}

// sendTopUp queues a top-up, or drops it if the ttl of its lock has all but passed and no SET of
// the token may still land.
func (s *repairs) sendTopUp(st *status, q *queue, r *repair, now time.Time) {
	e, over := s.pushTopUp(st, q, r, now)
	switch {
	case e != nil:
		s.sent(r, e)
		r.drop, r.unsent = time.Time{}, false // from here on it may land
	case over && !r.drop.IsZero():
		s.remove(r)
	}
}

// pushTopUp queues a top-up if there is room. over: the ttl of its lock has all but passed.
func (s *repairs) pushTopUp(st *status, q *queue, r *repair, now time.Time) (e *entry, over bool) {
	op, awake := r.op, now.Sub(s.start)
	now = now.Add(r.since.Suspended())
	op.Within = r.within(now)
	if over = op.Within < minTopUp; over || st.refusal(wire.TopUp, q.n) != nil {
		return nil, over
	}
	op.TTL, op.Begun = r.until.Sub(now).Truncate(time.Millisecond), awake
	return q.push(op, nil), false
}

// sent notes that e was queued for r. Another entry may be on the lane for r already; e comes
// after it, and ends r if both are answered.
func (s *repairs) sent(r *repair, e *entry) {
	s.serial++
	r.state, r.serial = repairSent, s.serial
	e.serial, e.alone = s.serial, r.alone
}

// answered ends the repair that e was sent for, or notes that it has to be sent again. It returns
// the repair; the zero value without one, and if another entry was queued for it after e.
func (s *repairs) answered(e *entry, r *wire.Reply, now time.Time) (was repair) {
	pending := s.find(e.op.TokenAt)
	switch {
	case pending == nil || pending.serial != e.serial || pending.op.Kind != e.op.Kind:
		return was
	case pending.state != repairSent: // it has changed since, and waits for room: nothing of it is on the lane
		if pending.drop.IsZero() {
			pending.drop = now.Add(pending.lives)
		}
		return was
	}
	was = *pending
	if r.Kind == ':' {
		s.remove(pending)
	} else {
		s.failed(pending, now)
		pending.alone = e.alone
	}
	return was
}
