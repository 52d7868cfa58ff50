//go:build faketime && !race

package sim

import (
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
)

// TestSeedReplays: of six runs of one seed two are equal, to the byte. Why a few seeds have more
// than one run is not known; a select with two ready channels chooses at random.
//
// The scheduler interrupts a goroutine after 10 ms and runs others first. On a busy machine this
// happens to every one. With the build tag faketime, which Go's playground uses, the real clock
// stops while a goroutine is ready, so none is interrupted. The race detector runs goroutines in
// any order.
//
//	go test -tags faketime -run TestSeedReplays ./quorum/internal/sim
//
//	QUORUM_SEEDS=100 compares so many, from QUORUM_FROM or 1 on
func TestSeedReplays(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	defer func(before uint64) { keepEvents = before }(keepEvents)
	keepEvents = 1 << 18
	// The collector stops goroutines at any point, and the ones that are ready at one instant go
	// on in another order.
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	first, seeds := uint64(1), uint64(10)
	if n, ok := number64("QUORUM_SEEDS"); ok {
		seeds = n
	}
	if n, ok := number64("QUORUM_FROM"); ok {
		first = n
	}
	for seed := first; seed < first+seeds; seed++ {
		runs := []string{replay(t, seed)}
		for next := replay(t, seed); !slices.Contains(runs, next); next = replay(t, seed) {
			if runs = append(runs, next); len(runs) == 6 {
				t.Errorf("QUORUM_SEED=%d has several runs:\n%s", seed, difference(runs[0], next))
				break
			}
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
			part := func(lines []string) string { return strings.Join(lines[max(0, i-5):min(i+3, len(lines))], "\n") }
			return part(a) + "\n--\n" + part(b)
		}
	}
	return "one is longer"
}
