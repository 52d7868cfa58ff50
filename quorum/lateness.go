package quorum

import (
	"sync"
	"time"

	"go.uber.org/zap"

	"lockproxy/quorum/internal/clock"
)

// lateness is how late this process was because it lacked processor time or was stopped.
type lateness struct {
	log   *zap.Logger
	pulse deadline // shows lateness while no other deadline is due

	mu      sync.Mutex
	peak    clock.Peak
	by      time.Duration // the latest
	at      time.Time
	worst   time.Duration // of the last minute before at
	worstAt time.Time
	said    time.Duration // the last that was logged
	saidAt  time.Time
}

// minLateness is the least that is logged and shown, and that explains late answers.
const minLateness = 50 * time.Millisecond

// pulseEvery is the time between two looks at the clock without other deadlines.
const pulseEvery = time.Second

// observe keeps a deadline in the queue, so that its timer runs at least once a pulse.
func (l *lateness) observe(q *deadlines) {
	l.pulse.expire = func() { q.set(&l.pulse, time.Now().Add(pulseEvery)) }
	l.pulse.expire()
}

// note takes how late a timer was. It logs that once in ten seconds, and sooner if it is twice as
// much.
func (l *lateness) note(by time.Duration) {
	l.mu.Lock()
	now := time.Now()
	l.peak.Note(by, now)
	if by < minLateness {
		l.mu.Unlock()
		return
	}
	l.by, l.at = by, now
	if by >= l.worst || now.Sub(l.worstAt) > time.Minute {
		l.worst, l.worstAt = by, now
	}
	says := by >= 2*l.said || now.Sub(l.saidAt) >= 10*time.Second
	if says {
		l.said, l.saidAt = by, now
	}
	l.mu.Unlock()
	if says {
		l.log.Warn("this proxy was late: is it short of processor time, or was it stopped?", zap.Duration("late_by", by))
	}
}

// recent returns how late this process was at most in the last seconds.
func (l *lateness) recent(now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.peak.Max(now)
}

// last returns when this process was last late, zero for never, and how late it was at most in the
// minute before.
func (l *lateness) last() (by time.Duration, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.worst, l.at
}

// during returns how late this process was within the last d, 0 if it was not. If it was, it
// cannot know how long others took.
func (l *lateness) during(d time.Duration) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.at.IsZero() || time.Since(l.at) > d {
		return 0
	}
	return l.by
}
