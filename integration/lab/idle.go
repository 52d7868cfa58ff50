package lab

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// idleLooks is how many times in a row Idle must find all threads asleep, idlePause apart. One
// look may fall between the arrival of bytes and the wake-up of the thread that reads them.
const (
	idleLooks = 6
	idlePause = 5 * time.Millisecond
)

// Idle reports whether the processes have done all their work: no thread runs, or waits for a
// processor. A process that gets no processor on a busy machine is not idle, so this is evidence,
// unlike a period of silence.
func Idle(processes ...*Process) bool {
	for range idleLooks {
		for _, p := range processes {
			if !p.asleep() {
				return false
			}
		}
		time.Sleep(idlePause)
	}
	return true
}

// WaitIdle waits until the processes have done all their work; see Idle.
func WaitIdle(t testing.TB, timeout time.Duration, processes ...*Process) {
	t.Helper()
	WaitFor(t, "all processes idle", timeout, func() bool { return Idle(processes...) })
}

// asleep reports whether every thread of the process sleeps. A process that has ended has no
// threads.
func (p *Process) asleep() bool {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", p.Cmd.Process.Pid))
	if err != nil {
		panic(err) // the pattern is constant
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // the thread has ended
		}
		if _, state, _ := strings.Cut(string(text), ") "); strings.HasPrefix(state, "R") || strings.HasPrefix(state, "D") {
			return false
		}
	}
	return true
}
