package lab

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// Starvation records how long the threads of some processes wait for a processor. A test that sees
// an error of a deadline can thus distinguish a fault of the program from a busy machine.
type Starvation struct {
	processes []*Process

	mu    sync.Mutex
	waits []processorWait
}

// processorWait is a time in which a thread waited for a processor, for a part of that time or for
// all of it.
type processorWait struct {
	from, to time.Time
	waited   time.Duration
}

// Self returns this process, for WatchStarvation: relays run in it.
func Self() *Process {
	process, _ := os.FindProcess(os.Getpid()) // on Unix it cannot fail
	return &Process{name: "the test", Cmd: &exec.Cmd{Process: process}}
}

// starvationPause is the time between two looks at the threads.
const starvationPause = 50 * time.Millisecond

// WatchStarvation watches processes until the test ends. On a system that does not count the waits
// of threads, it sees none.
func WatchStarvation(t testing.TB, processes ...*Process) *Starvation {
	t.Helper()
	s := &Starvation{processes: processes}
	stop := make(chan struct{})
	var watcher sync.WaitGroup
	watcher.Go(func() { s.watch(stop) })
	t.Cleanup(func() {
		close(stop)
		watcher.Wait()
	})
	return s
}

func (s *Starvation) watch(stop <-chan struct{}) {
	before, looked := s.threadWaits(), time.Now()
	for {
		select {
		case <-stop:
			return
		case <-time.After(starvationPause):
		}
		now := s.threadWaits()
		to := time.Now()
		s.mu.Lock()
		for file, total := range now {
			if waited := total - before[file]; waited >= starvationPause/2 {
				// The system counts a wait when it ends, so it may have begun before the last
				// look.
				s.waits = append(s.waits, processorWait{looked.Add(-waited), to, waited})
			}
		}
		s.mu.Unlock()
		before, looked = now, to
	}
}

// threadWaits returns the total time that each thread has waited for a processor.
func (s *Starvation) threadWaits() map[string]time.Duration {
	totals := map[string]time.Duration{}
	for _, p := range s.processes {
		files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", p.Cmd.Process.Pid))
		if err != nil {
			panic(err) // the pattern is constant
		}
		for _, file := range files {
			var ran, waited int64 // in ns
			text, err := os.ReadFile(file)
			if err != nil {
				continue // the thread has ended
			}
			if _, err := fmt.Sscan(string(text), &ran, &waited); err == nil {
				totals[file] = time.Duration(waited)
			}
		}
	}
	return totals
}

// Longest returns the longest time that a single thread waited for a processor in a part of the
// given time.
func (s *Starvation) Longest(from, to time.Time) (longest time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.waits {
		if w.to.After(from) && w.from.Before(to) {
			longest = max(longest, w.waited)
		}
	}
	return longest
}
