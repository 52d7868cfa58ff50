package lab

import (
	"encoding/json"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"time"
)

// Slack multiplies every bound on time: the race detector makes the binary several times slower.
var Slack = map[bool]time.Duration{false: 1, true: 5}[Race]

// Patience is how long a test waits for an event that takes a moment on a quiet machine. Twice
// that time must stay under 60s, the ttl of most locks here, so that no test takes expiry for a
// release.
const Patience = 25 * time.Second

// WaitFor polls until done returns true, and fails the test after timeout. what names the event.
func WaitFor(t testing.TB, what string, timeout time.Duration, done func() bool) {
	t.Helper()
	if !Poll(timeout, done) {
		t.Fatalf("wait for %s: got a timeout after %v", what, timeout)
	}
}

// Poll calls done every few milliseconds until it returns true or timeout has passed, and returns
// the last result. Calls take processor time from other tests, so Poll pauses between them for a
// tenth of the time that it has waited, at least 3 and at most 100 ms.
func Poll(timeout time.Duration, done func() bool) bool {
	start := time.Now()
	for !done() {
		waited := time.Since(start)
		if waited >= timeout {
			return done()
		}
		time.Sleep(min(max(waited/10, 3*time.Millisecond), 100*time.Millisecond, timeout-waited))
	}
	return true
}

// Pass waits for d, so that a fault or a load lasts. To wait for an event, use Poll.
func Pass(t testing.TB, d time.Duration) {
	t.Helper()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.Context().Done():
	}
}

// Lag measures, until the test ends, how late this machine wakes a process that sleeps. most is
// the latest since the call. Other processes are as late.
func Lag(t testing.TB) (most func() time.Duration) {
	t.Helper()
	var lag atomic.Int64
	go func() {
		const nap = 5 * time.Millisecond
		for last := time.Now(); t.Context().Err() == nil; last = time.Now() {
			time.Sleep(nap)
			lag.Store(max(lag.Load(), int64(time.Since(last)-nap)))
		}
	}()
	return func() time.Duration { return time.Duration(lag.Load()) }
}

// SeedOf returns the seed of a random test: INTEGRATION_SEED if set, to repeat a run, or fallback.
func SeedOf(t testing.TB, fallback uint64) uint64 {
	t.Helper()
	if text := os.Getenv("INTEGRATION_SEED"); text != "" {
		var seed uint64
		if err := json.Unmarshal([]byte(text), &seed); err != nil {
			t.Fatalf("INTEGRATION_SEED: %v", err)
		}
		fallback = seed
	}
	t.Logf("INTEGRATION_SEED=%d repeats this run", fallback)
	return fallback
}

// IsLong reports whether INTEGRATION_LONG is set: tests try all variants, and more rounds.
func IsLong() bool { return os.Getenv("INTEGRATION_LONG") != "" }

// Long returns short, or long if IsLong.
func Long[T any](short, long T) T {
	if IsLong() {
		return long
	}
	return short
}

// Median returns the median of a list.
func Median(list []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(list))
	return sorted[len(sorted)/2]
}
