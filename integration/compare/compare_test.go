package compare

import (
	"fmt"
	"os"
	"sync"
	"testing"
	"time"
)

// tally is the result of one round, or of several.
type tally struct {
	bad, tries int
	served     int // tries that were answered during the fault
}

// size is the extent of a run.
type size struct {
	pairs    int           // locks per round that may leave a stray
	rounds   int           // of rows with many tries each
	singles  int           // rounds of rows with one try each
	updating time.Duration // how long updates go on
	parallel int           // rounds at a time
}

var (
	brief = size{pairs: 6, rounds: 1, singles: 1, updating: 8 * time.Second, parallel: 8}
	full  = size{pairs: 20, rounds: 3, singles: 20, updating: 20 * time.Second, parallel: 8}
)

// row is one line of the table: a fault, and the count of its consequences.
type row struct {
	name   string
	single bool // one try a round
	always bool // no lock can prevent it, so no subject's count is 0
	fenced bool // only for subjects with fencing numbers
	served bool // report the answers during the fault
	run    func(t *testing.T, s subject, size size) tally
}

var rows = []row{
	{name: "stray keys after a master was paused", served: true, run: straysAfterPause},
	{name: "stray keys after late delivery", served: true, run: straysDeliveredLate},
	{name: "stray keys after a network cut", served: true, run: straysAfterCut},
	{name: "granted twice: two of three masters restarted empty", single: true, run: overlapAfterRestarts},
	{name: "granted twice: FLUSHALL on two of three masters", single: true, run: overlapAfterFlush},
	{name: "granted twice: clocks of two of three masters stepped", single: true, run: overlapAfterClockStep},
	{name: "lost updates, clients pause for longer than the ttl", always: true, run: lostPlain},
	{name: "lost updates, the resource refuses lower fences", fenced: true, run: lostFenced},
	{name: "fences that do not rise, masters restarted empty and flushed", fenced: true, run: risingFences},
}

// cell is a row and a subject, by name.
type cell struct{ row, subject string }

// results are the tallies of all rounds.
type results map[cell]tally

// In a brief run of every row lockproxy's count is 0, and redsync's is not, which proves the
// fault.
func TestCompare(t *testing.T) {
	t.Parallel()
	found := runAll(t, []subject{ours(), theirs()}, brief)
	for _, r := range rows {
		clean, bites := found[cell{r.name, "lockproxy"}], found[cell{r.name, "redsync"}]
		if t.Logf("%s: lockproxy %+v, redsync %+v", r.name, clean, bites); clean.tries == 0 || clean.bad > 0 && !r.always {
			t.Errorf("%s: lockproxy: got %d of %d, want 0 of some", r.name, clean.bad, clean.tries)
		}
		if !r.fenced && bites.bad == 0 {
			t.Errorf("%s: redsync: got 0 of %d, so the fault has no effect", r.name, bites.tries)
		}
	}
}

// TestTable runs all subjects at length and writes the table to the file that COMPARE_RESULT
// names.
func TestTable(t *testing.T) {
	file := os.Getenv("COMPARE_RESULT")
	if file == "" || os.Getenv("COMPARE_ONLY") != "" {
		t.Skip("COMPARE_RESULT names no file, or only other rows: run.sh runs this")
	}
	subjects := []subject{ours(), theirs(), nodeSubject("node-redlock 4", "redlock"),
		nodeSubject("node-redlock 5", "redlock5")}
	begun := time.Now()
	found := runAll(t, subjects, full)
	if err := os.WriteFile(file, []byte(report(subjects, found, time.Since(begun))), 0o644); err != nil {
		t.Fatal(err)
	}
}

// runAll runs all rounds of all rows for all subjects, some at a time.
func runAll(t *testing.T, subjects []subject, size size) results {
	t.Helper()
	found := results{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	turns := make(chan struct{}, size.parallel)
	for _, r := range rows {
		rounds := size.rounds
		if r.single {
			rounds = size.singles
		}
		for i := range rounds {
			for _, s := range subjects {
				if s.missing != "" || r.fenced && !s.fences {
					continue
				}
				turns <- struct{}{}
				wg.Go(func() {
					defer func() { <-turns }()
					t.Run(fmt.Sprintf("%s/%s/%d", r.name, s.name, i), func(t *testing.T) {
						got, at := r.run(t, s, size), cell{r.name, s.name}
						mu.Lock()
						defer mu.Unlock()
						found[at] = found[at].plus(got)
					})
				})
			}
		}
	}
	wg.Wait()
	return found
}

func (a tally) plus(b tally) tally {
	return tally{bad: a.bad + b.bad, tries: a.tries + b.tries, served: a.served + b.served}
}
