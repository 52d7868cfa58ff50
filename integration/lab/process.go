package lab

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"lockproxy/integration/redistest"
)

// Process is a program with its output on stdout and stderr.
type Process struct {
	name string
	Cmd  *exec.Cmd
	Log  *Output
	kept string        // the directory for its output if the test fails
	Done chan struct{} // closed when the process has ended
	Err  error         // the result of Wait; valid after Done

	ending atomic.Bool // the test has sent SIGTERM
}

// Launch starts a program. Its clean-up kills it, and keeps its output if the test failed.
func Launch(t testing.TB, name, path string, args ...string) *Process {
	t.Helper()
	return launch(t, name, nil, path, args...)
}

// launch is Launch with more environment variables.
func launch(t testing.TB, name string, env []string, path string, args ...string) *Process {
	t.Helper()
	return launchWith(t, name, env, redistest.ChildAttributes(), path, args...)
}

func launchWith(t testing.TB, name string, env []string, attributes *syscall.SysProcAttr, path string,
	args ...string) *Process {
	t.Helper()
	p := &Process{name: name, Cmd: exec.Command(path, args...), Log: &Output{}, Done: make(chan struct{})}
	if dirs, ok := t.(interface{ ArtifactDir() string }); ok {
		p.kept = dirs.ArtifactDir() // called before t.Cleanup below, so that its own clean-up runs later
	}
	p.Cmd.Stdout, p.Cmd.Stderr, p.Cmd.SysProcAttr = p.Log, p.Log, attributes
	p.Cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=20") // by default it sleeps a second at each exit
	p.Cmd.Env = append(p.Cmd.Env, env...)
	if err := p.Cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", name, err)
	}
	go p.await()
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			p.keepLog(t)
		}
	})
	return p
}

func (p *Process) await() {
	p.Err = p.Cmd.Wait()
	close(p.Done)
}

// Says reports whether the process has written text. It waits for the text, because lab may read a
// line of output later than a reply that the process sent after it.
func (p *Process) Says(text string) bool {
	return Poll(Patience, func() bool { return strings.Contains(p.Log.String(), text) })
}

// Kill ends the process (SIGKILL) and waits for its end. It has no effect on one that has ended.
func (p *Process) Kill() {
	p.Signal(syscall.SIGKILL)
	<-p.Done
}

// Signal sends s to the process. It has no effect on one that has ended.
func (p *Process) Signal(s syscall.Signal) {
	if s == syscall.SIGTERM {
		p.ending.Store(true)
	}
	_ = p.Cmd.Process.Signal(s)
}

// Running reports whether the process has not ended.
func (p *Process) Running() bool {
	select {
	case <-p.Done:
		return false
	default:
		return true
	}
}

// Pause stops the process (SIGSTOP) and returns once the system shows it as stopped.
func (p *Process) Pause(t testing.TB) {
	t.Helper()
	p.Signal(syscall.SIGSTOP)
	WaitFor(t, "the stop of "+p.name, Patience, func() bool { return p.stat(t, 0) == "T" })
}

// Resume continues a paused process (SIGCONT).
func (p *Process) Resume() { p.Signal(syscall.SIGCONT) }

// stat returns a field of /proc/PID/stat. Field 0 is the state.
func (p *Process) stat(t testing.TB, field int) string {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.Cmd.Process.Pid))
	if err != nil {
		t.Fatalf("look at %s: %v\n%s", p.name, err, p.Log.Tail(4000))
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	return strings.Fields(rest)[field]
}

// CPU returns the processor time the process has used so far, in steps of 10 ms.
func (p *Process) CPU(t testing.TB) time.Duration {
	t.Helper()
	var ticks int
	for _, field := range []int{11, 12} { // utime, stime
		n, err := strconv.Atoi(p.stat(t, field))
		if err != nil {
			t.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// Memory returns a size in MB from /proc/PID/status: VmRSS is the resident memory, and VmHWM its
// peak.
func (p *Process) Memory(t testing.TB, field string) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), field+":")
	kilobytes, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		t.Fatal(err)
	}
	return kilobytes / 1024
}

// keepLog logs the end of the process's output and stores all of it with the test's artifacts.
func (p *Process) keepLog(t testing.TB) {
	t.Logf("end of the output of %s:\n%s", p.name, p.Log.Tail(2000))
	if p.kept == "" {
		return
	}
	name := strings.NewReplacer(":", "-", "/", "-", " ", "-").Replace(p.name) + ".log"
	if err := os.WriteFile(filepath.Join(p.kept, name), []byte(p.Log.String()), 0o600); err != nil {
		t.Log(err)
	}
}

// MemoryBound is the memory that a proxy may use in these tests, in MB. The race detector needs
// shadow memory, four times the size of the heap, which includes 32 MB for garbage.
var MemoryBound = map[bool]int{false: 100, true: 430}[Race]
