package quorum

import (
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"testing/synctest"
)

// One seed is one run: what happens follows from it, to the byte.
func TestSeedReplays(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	// The collector stops goroutines where it likes, and those that are ready at one instant go on in another order.
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	first, seeds := uint64(1), uint64(10)
	if n, ok := number64("QUORUM_SEEDS"); ok {
		seeds = n
	}
	if n, ok := number64("QUORUM_FROM"); ok {
		first = n
	}
	for seed := first; seed < first+seeds; seed++ {
		one, other := replay(t, seed), replay(t, seed)
		if one != other {
			t.Errorf("QUORUM_SEED=%d has two runs: %s", seed, difference(one, other))
		}
	}
}

// replay is the trace of a run.
func replay(t *testing.T, seed uint64) string {
	var w *world
	synctest.Test(t, func(*testing.T) { w = runWorld(newPlan(seed)) })
	runtime.GC()
	return w.trace.all()
}

// difference is where two traces part.
func difference(one, other string) string {
	a, b := strings.Split(one, "\n"), strings.Split(other, "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return "line " + strings.Join([]string{strings.Join(a[max(0, i-8):min(i+3, len(a))], "\n"), strings.Join(b[max(0, i-2):min(i+3, len(b))], "\n")}, "\n--\n")
		}
	}
	return "one is longer"
}
