package quorum

import (
	"testing"
	"time"
)

func TestValidity(t *testing.T) {
	for _, c := range []struct {
		name               string
		ttl, elapsed, want time.Duration
	}{
		{"at once", 10 * time.Second, 0, 10*time.Second - 102*time.Millisecond},
		{"after 50ms", 10 * time.Second, 50 * time.Millisecond, 10*time.Second - 152*time.Millisecond},
		{"short ttl", 10 * time.Millisecond, 0, 7900 * time.Microsecond},
		{"ttl shorter than the drift", 2 * time.Millisecond, 0, -20 * time.Microsecond},
		{"after the ttl", time.Second, time.Second, -12 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := validity(c.ttl, c.elapsed, drift(c.ttl)); got != c.want {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
}

func TestRetryDelay(t *testing.T) {
	for _, c := range []struct {
		name    string
		elapsed time.Duration
		retry   int
		random  float64
		want    time.Duration
	}{
		{"at least a millisecond", 0, 0, 0, time.Millisecond},
		{"random, up to three times as long", 0, 0, 0.5, 2 * time.Millisecond},
		{"as long as the attempt", 4 * time.Millisecond, 0, 0, 4 * time.Millisecond},
		{"twice as long with each retry", 4 * time.Millisecond, 1, 0.5, 16 * time.Millisecond},
		{"the last retry", time.Millisecond, 3, 0.999, 23984 * time.Microsecond},
		{"at most 50ms", 30 * time.Millisecond, 3, 0, 50 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := retryDelay(c.elapsed, c.retry, c.random); got.Round(time.Microsecond) != c.want {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
}
