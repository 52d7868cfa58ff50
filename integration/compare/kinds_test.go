package compare

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
)

// kindRow is a fault for another kind of locks, in lockproxy and in one other implementation of
// that kind.
type kindRow struct {
	name, others string
	missing      func() string // why the others cannot run, or empty
	ours, theirs func(t *testing.T, size size) tally
}

var kindRows = []kindRow{
	{
		name:    "more than 10 hold a lock for 10, each third of the clients cut off from another master",
		others:  "redis-semaphore's RedlockSemaphore",
		missing: func() string { return semaphores().missing },
		ours:    overbookOurs, theirs: overbookTheirs,
	},
	{
		name:    "deadlock: two lockers of two keys in opposite order",
		others:  "redsync, a key after the other",
		missing: func() string { return "" },
		ours:    oppositeOurs, theirs: oppositeTheirs,
	},
	{
		name:    "a writer gets no lock in 5 s beside readers that never pause",
		others:  "Redisson's rule for readers, on one Redis",
		missing: func() string { return "" },
		ours:    starveOurs, theirs: starveTheirs,
	},
}

// In a brief run of every row lockproxy's count is 0, and the others' are not.
func TestKinds(t *testing.T) {
	t.Parallel()
	for _, r := range kindRows {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			if got := r.ours(t, brief); got.bad > 0 || got.tries == 0 {
				t.Errorf("lockproxy: got %d of %d, want 0 of some", got.bad, got.tries)
			}
			if r.missing() != "" {
				t.Skip(r.missing())
			}
			if got := r.theirs(t, brief); got.bad == 0 {
				t.Errorf("%s: got 0 of %d, so the fault has no effect", r.others, got.tries)
			}
		})
	}
}

// TestTableOfKinds runs the rows at length and writes them to their section of the file that
// COMPARE_RESULT names.
func TestTableOfKinds(t *testing.T) {
	file := os.Getenv("COMPARE_RESULT")
	if file == "" {
		t.Skip("COMPARE_RESULT names no file: run.sh runs this")
	}
	var b strings.Builder
	b.WriteString(kindsTitle + "\n\n| fault, and the consequence counted | lockproxy | others | |\n" +
		"|---|---|---|---|\n")
	for _, r := range kindRows {
		theirs := "not run: " + r.missing()
		if r.missing() == "" {
			theirs = manyTimes(t, r.name+"/theirs", r.theirs)
		}
		mine := manyTimes(t, r.name+"/ours", r.ours)
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", r.name, mine, theirs, r.others)
	}
	b.WriteString(kindsRecipe)
	fmt.Fprintf(&b, "\nlockproxy: at commit %s; redis-semaphore: %s; redsync: %s.\n",
		commit(), semaphores().version, theirs().version)
	old, err := os.ReadFile(file)
	if err == nil {
		err = os.WriteFile(file, []byte(withKinds(string(old), b.String())), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// manyTimes adds up the rounds of one cell.
func manyTimes(t *testing.T, name string, run func(*testing.T, size) tally) string {
	t.Helper()
	var sum tally
	var mu sync.Mutex
	t.Run(name, func(t *testing.T) {
		for i := range 2 * full.rounds {
			t.Run(fmt.Sprint(i), func(t *testing.T) {
				t.Parallel()
				got := run(t, full)
				mu.Lock()
				defer mu.Unlock()
				sum = sum.plus(got)
			})
		}
	})
	return fmt.Sprintf("%d / %d", sum.bad, sum.tries)
}

const (
	kindsTitle = "## Other kinds of locks"
	nextTitle  = "## Method"
)

// withKinds puts the section of the kinds into a report, replacing an earlier one.
func withKinds(report, section string) string {
	before, after, _ := strings.Cut(report, nextTitle)
	before, _, _ = strings.Cut(before, kindsTitle)
	return before + section + "\n" + nextTitle + after
}

const kindsRecipe = `
Each cell: what should not have happened / tries, over six rounds.

- **More than 10 hold**: three masters, three sites with two clients each. Each site is cut off from
  another master, so that it reaches two of three. Then 30 ask for one of 10 permits, ten at each
  site and one every 50 ms, and keep theirs. Counted: holders beyond ten. A counter at
  each master and a majority of the masters let 15 in; redis-semaphore's source,
  redlockSemaphore/acquire.js, has that rule. It tries for 10 s, its default, over ioredis clients
  with enableOfflineQueue: false, which fail at once if a server is away.
- **Opposite order**: three masters, 20 pairs of keys. Of each pair two clients lock both keys, the
  one in this order, the other in that, and try again as the library does. Counted: after 3 s
  neither of the two has both. lockproxy locks both with KEYS. Redisson's MultiLock also locks one
  after the other, and gives its locks back when it waits too long for the next.
- **Readers without a pause**: 16 readers take a shared lock, hold it for 50 to 150 ms and take it
  again, so that there always is a reader. Counted: a writer that tries for 5 s is refused.
  Redisson's rule, in RedissonReadLock.tryLockInnerAsync, is: who reads may join while others read.
  Here it is a script of a few lines on one Redis.
`
