package lab

import (
	"encoding/json"
	"os"
	"slices"
	"testing"
	"time"
)

// Slack multiplies every bound on time: the race detector makes the binary several times slower.
var Slack = map[bool]time.Duration{false: 1, true: 5}[Race]

// Patience is how long a test waits for something that should happen at once, on a machine that
// may be busy. Twice as long must stay under the ttl of 60s that most locks have here, or expiry
// would pass for a release.
const Patience = 25 * time.Second

// WaitFor polls until done returns true, and fails the test after timeout.
func WaitFor(t testing.TB, what string, timeout time.Duration, done func() bool) {
	t.Helper()
	if !Poll(timeout, done) {
		t.Fatalf("%s: not within %v", what, timeout)
	}
}

// Poll asks done every few milliseconds until it returns true or timeout has passed, and returns
// its last answer. Asking keeps processors busy that other tests need, so it pauses for 2 % of the
// time that it has waited: from 2 to 20 ms.
func Poll(timeout time.Duration, done func() bool) bool {
	start := time.Now()
	for !done() {
		waited := time.Since(start)
		if waited >= timeout {
			return done()
		}
		time.Sleep(min(max(waited/50, 2*time.Millisecond), 20*time.Millisecond, timeout-waited))
	}
	return true
}

// Pass lets time pass that a test needs to pass: for a fault to last, not for something to happen.
func Pass(t testing.TB, d time.Duration) {
	t.Helper()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.Context().Done():
	}
}

// SeedOf returns the seed of a random test: INTEGRATION_SEED if set, to repeat a run, or the one
// given.
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

// Long returns the size of a test for the short run, or for the long one that INTEGRATION_LONG
// asks for.
func Long[T any](short, long T) T {
	if os.Getenv("INTEGRATION_LONG") != "" {
		return long
	}
	return short
}

// Median returns the middle one of a list.
func Median(list []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(list))
	return sorted[len(sorted)/2]
}
