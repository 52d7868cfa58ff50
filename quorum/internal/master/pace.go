package master

import (
	"time"

	"go.uber.org/zap"

	"lockproxy/quorum/internal/clock"
)

// pace is how fast the master answers on this connection. The lane's mu guards it.
type pace struct {
	longest clock.Peak  // round trips of packets and PINGs
	least   [2]leastRTT // of PINGs, in this period and in the one before

	votes, late int           // answers to acquires since
	since       time.Duration // then, by the lane's clock; two periods of it at most

	slow    time.Duration // how long the latest late answer took; 0: the master answers in time
	slowest time.Duration // of those since the master became slow
	slowAt  time.Duration // when the latest was, by the lane's clock
}

// leastRTT is the shortest round trip of a period.
type leastRTT struct {
	rtt   time.Duration // 0: none
	since time.Duration // when the period began, by the lane's clock
}

// leastFor is the length of such a period. A route that becomes longer is noticed after two.
const leastFor = 5 * time.Minute

// pong notes the round trip of a PING.
func (p *pace) pong(rtt, now time.Duration) {
	if p.least[0].rtt == 0 || now-p.least[0].since >= leastFor {
		p.least[0], p.least[1] = leastRTT{rtt, now}, p.least[0]
	}
	p.least[0].rtt = min(p.least[0].rtt, rtt)
}

// RTT returns the shortest round trip of a PING in the last minutes, and the longest of any packet in
// the last seconds. Both are 0 if there was none.
func (l *Lane) RTT() (least, longest time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := &l.pace
	least = p.least[0].rtt
	if old := p.least[1].rtt; old > 0 {
		least = min(least, old)
	}
	return least, p.longest.Max(time.Now())
}

// Silence returns for how long the master has made no progress: the time since it was sent the
// oldest command that it has not answered, or since its last bytes if these came later. It is 0 if
// the master owes no answer, or if bytes of it wait to be read: then this process is the slow one.
func (l *Lane) Silence() time.Duration {
	l.mu.Lock()
	q, c := &l.queue, l.conn
	if c == nil || q.n == q.unsent {
		l.mu.Unlock()
		return 0
	}
	sent := q.at(0).sent
	l.mu.Unlock()
	silence := l.clock() - max(sent, time.Duration(l.heard.Load()))
	if silence > 0 && c.unread != nil && c.unread() {
		return 0
	}
	return max(silence, 0)
}

const (
	// slowFor is how long a master stays slow after its last late answer.
	slowFor = 5 * time.Second
	// slowShare is how many votes of a slow master are late: one of so many.
	slowShare = 10
	// sharePeriod is the time after which votes weigh half.
	sharePeriod = 2 * time.Second
)

// vote notes an answer to an acquire.
func (p *pace) vote(now time.Duration) {
	if now-p.since >= sharePeriod {
		p.votes, p.late, p.since = p.votes/2, p.late/2, now
	}
	p.votes++
}

// Late notes that the master took so long for an answer that was too late to count. vote: it was
// the answer to an acquire. The master is slow if a tenth of its votes are late, or a PING is.
func (l *Lane) Late(took time.Duration, vote bool) {
	l.mu.Lock()
	p := &l.pace
	slow := !vote
	if vote {
		l.status.Late++
		p.late++
		slow = p.late*slowShare >= p.votes
	}
	began := slow && p.slow == 0
	if slow {
		p.slow, p.slowAt, p.slowest = took, l.clock(), max(p.slowest, took)
	}
	l.mu.Unlock()
	if began {
		l.cfg.Log.Warn("master is slow: it answers later than the majority needs", l.master(), zap.Duration("took", took))
	}
}

// endSlow ends the slow state of a master that has given no late answer for slowFor.
func (l *Lane) endSlow() {
	l.mu.Lock()
	p, late := &l.pace, l.status.Late
	slowest := p.slowest
	ended := p.slow > 0 && l.clock()-p.slowAt >= slowFor
	if ended {
		p.slow, p.slowest = 0, 0
	}
	l.mu.Unlock()
	if ended {
		l.cfg.Log.Info("master answers in time again", l.master(), zap.Duration("slowest", slowest), zap.Uint64("late_votes", late))
	}
}
