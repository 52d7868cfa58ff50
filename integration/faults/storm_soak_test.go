package faults

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"lockproxy/integration/history"
	"lockproxy/integration/lab"
)

// TestSoak is TestFaultStorm for the time in INTEGRATION_SOAK ("1h"). It runs rounds with a seed
// each on deployments that last. soak.sh runs it. Beside the checks of each round, the first proxy
// of each deployment, which no fault ends, must not grow.
func TestSoak(t *testing.T) {
	length, err := time.ParseDuration(os.Getenv("INTEGRATION_SOAK"))
	if err != nil {
		t.Skip("INTEGRATION_SOAK is not set")
	}
	seed, total := lab.SeedOf(t, uint64(time.Now().UnixNano())), &soakTotal{start: time.Now(), faults: map[string]int{}}
	ended := make(chan struct{})
	var reporter sync.WaitGroup
	reporter.Go(func() { total.report(t, ended) })
	t.Run("storms", func(t *testing.T) {
		for i, name := range []string{"3 masters", "5 masters", "3 masters, clocks that jump",
			"3 masters, nothing may be left"} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				plan := stormPlans()[name]
				plan.steady = true
				soak(t, plan, seed+uint64(i)<<32, length, total)
			})
		}
	})
	close(ended)
	reporter.Wait()
	t.Log(total)
}

// soak runs rounds of one storm until the time has passed or it finds a violation.
func soak(t *testing.T, plan stormPlan, seed uint64, length time.Duration, total *soakTotal) {
	s := startStorm(t, plan, seed)
	var sizes []size
	for time.Since(total.start) < length && !t.Failed() {
		s.blow(t)
		s.verdict(t, s.check(t))
		total.add(s)
		sizes = append(sizes, sizeOf(t, s.Proxies[0]))
		s.seed++
	}
	if goroutines := goroutines(t, s.Proxies[0]); goroutines > 100 {
		t.Errorf("goroutines at rest: got %d, want at most 100", goroutines)
	}
	wantFlat(t, sizes)
}

// size is the memory and the open files of a process.
type size struct{ megabytes, files int }

func sizeOf(t testing.TB, p *lab.Proxy) size {
	t.Helper()
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.Cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	return size{p.Memory(t, "VmRSS"), len(files)}
}

// wantFlat compares the first rounds, without the very first, with the last. Memory rises and
// falls with garbage collection, so the least of some rounds counts.
func wantFlat(t testing.TB, sizes []size) {
	t.Helper()
	const some = 5
	t.Logf("sizes of a proxy after each round: %v", sizes)
	if len(sizes) <= 2*some {
		return
	}
	least := func(of []size, what func(size) int) int {
		return what(slices.MinFunc(of, func(a, b size) int { return what(a) - what(b) }))
	}
	first, last := sizes[1:1+some], sizes[len(sizes)-some:]
	memory, files := func(s size) int { return s.megabytes }, func(s size) int { return s.files }
	if before, after := least(first, memory), least(last, memory); after > before*3/2+10 {
		t.Errorf("memory of a proxy at rest: got %d MB, want about %d MB as in the first rounds", after, before)
	}
	if before, after := least(first, files), least(last, files); after > before+5 {
		t.Errorf("open files of a proxy at rest: got %d, want about %d as in the first rounds", after, before)
	}
}

// goroutines ends a proxy with SIGQUIT, so that it writes all its stacks, and counts these.
func goroutines(t testing.TB, p *lab.Proxy) int {
	t.Helper()
	p.Signal(syscall.SIGQUIT)
	lab.WaitFor(t, "the end after SIGQUIT", lab.Patience, func() bool { return !p.Running() })
	count := strings.Count(p.Log.String(), "\ngoroutine ")
	if count == 0 {
		t.Error("stacks after SIGQUIT: got none, want some")
	}
	p.Process = lab.Launch(t, "a proxy ended for its stacks",
		lab.Tool(t, "true")) // it exits with code 0, unlike the proxy
	return count
}

// soakTotal sums up all storms so far.
type soakTotal struct {
	start time.Time

	mu     sync.Mutex
	sum    history.Summary
	rounds int
	faults map[string]int
}

func (total *soakTotal) add(s *faultStorm) {
	total.mu.Lock()
	defer total.mu.Unlock()
	total.rounds++
	total.sum.Add(history.Summarize(s.log.Ops()))
	for kind, n := range s.faults {
		total.faults[kind] += n
	}
}

// report logs the total once a minute.
func (total *soakTotal) report(t testing.TB, ended <-chan struct{}) {
	tick := time.NewTicker(time.Minute)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			t.Log(total)
		case <-ended:
			return
		}
	}
}

// String returns the total on one line.
func (total *soakTotal) String() string {
	total.mu.Lock()
	defer total.mu.Unlock()
	faults := 0
	for _, n := range total.faults {
		faults += n
	}
	return fmt.Sprintf("after %v: %d rounds, %v, %d faults", time.Since(total.start).Round(time.Second),
		total.rounds, total.sum, faults)
}
