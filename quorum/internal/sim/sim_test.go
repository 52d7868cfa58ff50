package sim

import (
	"fmt"
	"os"
	"regexp"
	"runtime"
	"runtime/debug"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/quorum/internal/clock"
)

// seedsFor is how long the simulation runs in the test command.
const seedsFor = 10 * time.Second

// The real Quorum, in virtual time, under faults that follow from a seed: no two validities of a
// key overlap, fences rise, no token comes twice, no lock is lost while it is valid, no call takes
// too long, and no key is left on a master.
//
//	QUORUM_SEED=7     runs that one
//	QUORUM_SEEDS=1000 runs so many, or QUORUM_FOR=60 for so many seconds of processor time
//	QUORUM_FROM=1     begins with that seed, not with a random one
//	QUORUM_ALL=1      goes on after one that fails
//	QUORUM_FAMILY=fences makes all runs of that family, none all noise
//	QUORUM_TRACE=file writes what happened in the last of them
//	QUORUM_WANT=lost  takes notice only of faults that this regular expression finds
func TestSimulation(t *testing.T) {
	// One thread is almost twice as fast as two, since only one thing happens at a time.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	if os.Getenv("QUORUM_TRACE") != "" {
		keepEvents = 1 << 20
	}
	if seed, ok := number64("QUORUM_SEED"); ok {
		runSeed(t, seed)
		return
	}
	seeds, limited := number64("QUORUM_SEEDS")
	_, all := number64("QUORUM_ALL")
	first, ok := number64("QUORUM_FROM")
	if !ok {
		first = uint64(time.Now().UnixNano()) % 1e12
	}
	began, worked, done := time.Now(), clock.ProcessorTime(), uint64(0)
	goesOn := func() bool { return time.Since(began) < seedsFor }
	if seconds, ok := number64("QUORUM_FOR"); ok {
		goesOn = func() bool { return clock.ProcessorTime()-worked < time.Duration(seconds)*time.Second }
	}
	if limited {
		goesOn = func() bool { return done < seeds }
	}
	var total tallies
	for ; (all || !t.Failed()) && goesOn(); done++ {
		total.add(runSeed(t, first+done))
	}
	took, work := time.Since(began), clock.ProcessorTime()-worked
	t.Logf("seeds %d to %d, %d in %v (%v at work, %.0f a second): %v", first, first+done-1, done,
		took.Round(time.Millisecond),
		work.Round(time.Millisecond), float64(done)/work.Seconds(), total)
}

// tallies is what runs had in them.
type tallies struct{ calls, grants, extends, commands int }

func (a *tallies) add(b tallies) {
	a.calls, a.grants, a.extends, a.commands = a.calls+b.calls, a.grants+b.grants, a.extends+b.extends,
		a.commands+b.commands
}

func (a tallies) String() string {
	return fmt.Sprintf("%d calls, %d leases, %d extended, %d scripts on masters", a.calls, a.grants, a.extends,
		a.commands)
}

// runSeed runs one seed in a bubble of its own.
func runSeed(t *testing.T, seed uint64) tallies {
	t.Helper()
	stuck := time.AfterFunc(10*time.Minute, func() { panic(fmt.Sprintf("QUORUM_SEED=%d does not end", seed)) })
	defer stuck.Stop()
	defer func() {
		if p := recover(); p != nil { // goroutines that do not end
			t.Fatalf("QUORUM_SEED=%d: %v\n%v", seed, p, newPlan(seed))
		}
	}()
	var w *world
	synctest.Test(t, func(*testing.T) { w = runWorld(newPlan(seed)) })
	if file := os.Getenv("QUORUM_TRACE"); file != "" {
		_ = os.WriteFile(file, []byte(w.trace.all()), 0o600)
	}
	if err := w.report(); err != nil && regexp.MustCompile(os.Getenv("QUORUM_WANT")).MatchString(w.ledger.fault) {
		t.Errorf("QUORUM_SEED=%d: %v", seed, err) // out here: a bubble that fails ends the test
	}
	return tallies{w.ledger.calls, w.ledger.grants, w.ledger.extends, int(w.trace.count)}
}

func number64(variable string) (n uint64, ok bool) {
	text := os.Getenv(variable)
	if text == "" {
		return 0, false
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		panic(variable + " is not a number")
	}
	return n, true
}
