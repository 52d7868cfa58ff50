package quorum

import (
	"time"

	"lockproxy/quorum/internal/wire"
)

// patience is how long a round waits for masters that have not answered. A master that answers
// others is not silent: its answer may come, and a late answer is better than an error. Even a
// healthy master may be silent for longer than Options.MasterTimeout where processor time is
// short. It gets more time if there is a sign of that: load, a longer round trip, or lateness of
// this process within the last seconds.
type patience struct {
	begun time.Time
	least time.Duration // a master whose lane has made no progress for so long no longer counts
	quiet time.Duration // the same, with a sign that it only seems silent
	most  time.Duration // after so long no master counts
}

const (
	// patience.quiet is quietFactor times Options.MasterTimeout, up to quietMost.
	quietFactor = 5
	quietMost   = 250 * time.Millisecond
)

// patienceFor returns the patience of a round about a lock of that ttl, which begins now.
func (f *fleet) patienceFor(ttl time.Duration) patience {
	timeout := f.opts.MasterTimeout
	return patience{begun: time.Now(), least: timeout, quiet: max(timeout, min(quietFactor*timeout, quietMost)),
		most: wire.AttemptTime(ttl)}
}

// lateFactor is how much later than this process a master may be that shares its processors.
const lateFactor = 10

// first is when a master may no longer count for the first time.
func (p *patience) first() time.Time { return p.begun.Add(min(p.least, p.most)) }

// silent returns those of the pending masters of a round that no longer count, and when others of
// them may not either; zero if there are none. Up to p.quiet a master has twice its longest round
// trip and lateFactor times the lateness of this process; and all of p.quiet under load, while
// less than a majority has answered.
func (f *fleet) silent(r *round, p *patience) (set uint64, next time.Time) {
	pending := r.pending()
	now := time.Now()
	next = p.begun.Add(p.most)
	if !now.Before(next) {
		return pending, time.Time{}
	}
	allowed := max(p.least, lateFactor*f.lateness.recent(now))
	if r.tally.answered() < majority(len(r.answers)) && f.load() >= manyAttempts {
		allowed = p.quiet
	}
	for i, l := range f.lanes {
		if pending&(1<<i) == 0 {
			continue
		}
		_, longest := l.RTT()
		left := min(max(allowed, 2*longest), p.quiet) - l.Silence()
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

// slow reports whether the masters of a round without a quorum, which began so long ago, are only
// slow: a majority has answered it, or has answered other requests since it began and within
// master-timeout. It is for the end of a LOCK's own time, which may be shorter than the queues of
// masters.
func (f *fleet) slow(r *round, began time.Duration) bool {
	alive := r.tally.answered()
	for i, l := range f.lanes {
		if r.answers[i].state != answerPending {
			continue
		}
		if ago, ok := l.Heard(); ok && ago < min(began, f.opts.MasterTimeout) {
			alive++
		}
	}
	return alive >= majority(len(r.answers))
}
