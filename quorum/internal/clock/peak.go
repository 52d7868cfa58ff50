package clock

import "time"

// peakPeriod is how long a Peak remembers a duration: once to twice that.
const peakPeriod = 2 * time.Second

// Peak is the greatest of the durations noted in the last 2 to 4 seconds. The zero value is 0. It
// is not safe for concurrent use.
type Peak struct {
	since  time.Time // when the period began
	now    time.Duration
	before time.Duration // of the period before
}

// Note adds a duration.
func (p *Peak) Note(d time.Duration, now time.Time) {
	p.roll(now)
	p.now = max(p.now, d)
}

// Max returns the greatest duration.
func (p *Peak) Max(now time.Time) time.Duration {
	p.roll(now)
	return max(p.now, p.before)
}

// roll begins a period when the last has ended.
func (p *Peak) roll(now time.Time) {
	switch age := now.Sub(p.since); {
	case age >= 2*peakPeriod:
		p.since, p.now, p.before = now, 0, 0
	case age >= peakPeriod:
		p.since, p.now, p.before = now, 0, p.now
	}
}
