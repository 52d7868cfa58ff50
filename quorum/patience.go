package quorum

import "time"

const (
	// maxAttempt is the longest time that a round waits for its masters.
	maxAttempt = time.Second
	// minAttempt is the least, however short the ttl.
	minAttempt = 2 * time.Millisecond
)

// patience is how long a round waits for masters that owe it an answer. A master that answers
// others is not silent: its answer may come, and an answer that comes late is better than an error.
// A master gets more time if it was slow lately, or if this process was: they may share a machine.
type patience struct {
	begun time.Time
	least time.Duration // a master whose lane has made no progress for so long no longer counts
	quiet time.Duration // ... under load, while less than a majority has answered
	most  time.Duration // after so long none counts
}

const (
	// Under load a round without the answers of a majority gives its masters quietFactor times
	// Options.MasterTimeout, up to quietMost: otherwise it can only fail, and where processor time is
	// short healthy masters are silent for longer now and then.
	quietFactor = 5
	quietMost   = 250 * time.Millisecond
)

// patienceFor returns the patience of a round about a lock of that ttl, which begins now.
func (q *Quorum) patienceFor(ttl time.Duration) patience {
	timeout := q.opts.MasterTimeout
	return patience{begun: time.Now(), least: timeout, quiet: max(timeout, min(quietFactor*timeout, quietMost)),
		most: attemptTime(ttl)}
}

// attemptTime bounds an attempt, and each of its rounds: it is far below the ttl (step 2).
func attemptTime(ttl time.Duration) time.Duration {
	return max(min(ttl/4, maxAttempt), minAttempt)
}

// lateFactor is how much later than this process a master may be that shares its processors.
const lateFactor = 10

// first is when a master may no longer count for the first time.
func (p *patience) first() time.Time { return p.begun.Add(min(p.least, p.most)) }

// silent returns those of the pending masters of a round that no longer count, and when others of
// them may not either; zero if there are none. A master has twice its longest round trip of the last
// seconds, up to quietMost, and lateFactor times the recent lateness of this process, if that is more.
func (q *Quorum) silent(r *round, p *patience) (set uint64, next time.Time) {
	pending := r.pending()
	now := time.Now()
	next = p.begun.Add(p.most)
	if !now.Before(next) {
		return pending, time.Time{}
	}
	quiet := p.least
	if r.tally.answered() < majority(len(r.answers)) && q.intake.load() >= manyAttempts {
		quiet = p.quiet
	}
	quiet = max(quiet, lateFactor*q.lateness.recent(now))
	for i, l := range q.lanes {
		if pending&(1<<i) == 0 {
			continue
		}
		_, longest := l.RTT()
		left := max(quiet, min(2*longest, quietMost)) - l.Silence()
		if left <= 0 {
			set |= 1 << i
		} else if at := now.Add(left); at.Before(next) {
			next = at
		}
	}
	if set == pending {
		next = time.Time{}
	}
	return set, next
}
