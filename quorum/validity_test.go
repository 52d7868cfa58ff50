package quorum

import (
	"testing"
	"time"
)

func TestValidity(t *testing.T) {
	for _, c := range []struct{ ttl, elapsed, want time.Duration }{
		{10 * time.Second, 0, 10*time.Second - 102*time.Millisecond},
		{10 * time.Second, 50 * time.Millisecond, 10*time.Second - 152*time.Millisecond},
		{10 * time.Millisecond, 0, 7900 * time.Microsecond},
		{2 * time.Millisecond, 0, -20 * time.Microsecond},
		{time.Second, time.Second, -12 * time.Millisecond},
	} {
		if got := validity(c.ttl, c.elapsed, drift(c.ttl)); got != c.want {
			t.Errorf("ttl %v, elapsed %v: %v, want %v", c.ttl, c.elapsed, got, c.want)
		}
	}
}

func TestRetryDelay(t *testing.T) {
	for _, c := range []struct {
		elapsed time.Duration
		retry   int
		random  float64
		want    time.Duration
	}{
		{0, 0, 0, time.Millisecond},
		{0, 0, 0.5, 2 * time.Millisecond},
		{4 * time.Millisecond, 0, 0, 4 * time.Millisecond},
		{4 * time.Millisecond, 1, 0.5, 16 * time.Millisecond},
		{time.Millisecond, 3, 0.999, 23984 * time.Microsecond},
		{30 * time.Millisecond, 3, 0, 50 * time.Millisecond},
	} {
		if got := retryDelay(c.elapsed, c.retry, c.random); got.Round(time.Microsecond) != c.want {
			t.Errorf("%v, retry %d, random %v: %v, want %v", c.elapsed, c.retry, c.random, got, c.want)
		}
	}
}
