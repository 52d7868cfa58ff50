package master

import (
	"time"

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

// roundTrips returns the shortest round trip of a PING in the last minutes, and the longest of any
// packet in the last seconds. Both are 0 if there was none.
func (p *pace) roundTrips(now time.Time) (least, longest time.Duration) {
	least = p.least[0].rtt
	if old := p.least[1].rtt; old > 0 {
		least = min(least, old)
	}
	return least, p.longest.Max(now)
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

// noteLate notes an answer that took too long to count, and reports whether the master has become
// slow by it: if a tenth of its votes are late, or a PING is.
func (p *pace) noteLate(took time.Duration, vote bool, now time.Duration) (began bool) {
	slow := !vote
	if vote {
		p.late++
		slow = p.late*slowShare >= p.votes
	}
	began = slow && p.slow == 0
	if slow {
		p.slow, p.slowAt, p.slowest = took, now, max(p.slowest, took)
	}
	return began
}

// endSlow ends the slow state of a master that has given no late answer for slowFor. slowest is
// its slowest answer in that state.
func (p *pace) endSlow(now time.Duration) (slowest time.Duration, ended bool) {
	slowest = p.slowest
	if ended = p.slow > 0 && now-p.slowAt >= slowFor; ended {
		p.slow, p.slowest = 0, 0
	}
	return slowest, ended
}
