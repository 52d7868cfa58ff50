package queue

import (
	"errors"
	"time"

	"lockproxy/quorum"
)

const (
	// firstRetry and lastRetry bound the longest delay between attempts that find no majority of
	// the masters, or end too late. It doubles each time; the delay is at random half of it or
	// more.
	firstRetry = 20 * time.Millisecond
	lastRetry  = time.Second
)

// backoff remembers for how long attempts have failed for another reason than a held lock.
type backoff struct {
	fault error     // of the last attempt; nil: none
	since time.Time // of the first such attempt
	delay time.Duration
}

// refused records that an attempt failed with err at now.
func (b *backoff) refused(err error, now time.Time) {
	switch {
	case errors.Is(err, quorum.ErrHeld):
		b.reset()
		return
	case b.fault == nil:
		b.since = now
	}
	b.fault = err
}

func (b *backoff) reset() { b.fault, b.delay = nil, 0 }

// lasts returns how long the attempts have failed at now.
func (b *backoff) lasts(now time.Time) time.Duration {
	if b.fault == nil {
		return 0
	}
	return now.Sub(b.since)
}

// next returns the delay before the next attempt.
func (b *backoff) next() time.Duration {
	b.delay = min(max(firstRetry, 2*b.delay), lastRetry)
	return b.delay
}
