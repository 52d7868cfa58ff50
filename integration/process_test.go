package integration

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// process is a running program with all it wrote to stdout and stderr.
type process struct {
	name string
	cmd  *exec.Cmd
	log  *output
	kept string        // the directory for its output if the test fails
	done chan struct{} // closed when the process has ended
	err  error         // how it ended; read it after done
}

// launch starts a program. Its clean-up kills it, and keeps its output if the test failed.
func launch(t testing.TB, name, path string, args ...string) *process {
	t.Helper()
	p := &process{name: name, cmd: exec.Command(path, args...), log: &output{}, done: make(chan struct{})}
	if dirs, ok := t.(interface{ ArtifactDir() string }); ok {
		p.kept = dirs.ArtifactDir() // asked for now, since it must outlive the clean-up below
	}
	p.cmd.Stdout, p.cmd.Stderr, p.cmd.SysProcAttr = p.log, p.log, childAttributes()
	p.cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=20") // the detector would wait a second at each exit
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", name, err)
	}
	go p.await()
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			p.keepLog(t)
		}
	})
	return p
}

func (p *process) await() {
	p.err = p.cmd.Wait()
	close(p.done)
}

// kill ends the process at once (SIGKILL) and waits for its end. It is harmless on one that has ended.
func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	<-p.done
}

func (p *process) signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) }

// running tells whether the process has not ended yet.
func (p *process) running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// pause stops the process (SIGSTOP) and returns when the system shows it as stopped.
func (p *process) pause(t testing.TB) {
	t.Helper()
	p.signal(syscall.SIGSTOP)
	waitFor(t, p.name+" stopped", patience, func() bool { return p.stat(t, 0) == "T" })
}

// resume lets a paused process go on (SIGCONT).
func (p *process) resume() { p.signal(syscall.SIGCONT) }

// stat returns a field of /proc/PID/stat, counted from the state, which is 0.
func (p *process) stat(t testing.TB, field int) string {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		t.Fatalf("look at %s: %v\n%s", p.name, err, p.log.tail(4000))
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	return strings.Fields(rest)[field]
}

// cpu returns the processor time the process has used so far, in steps of 10 ms.
func (p *process) cpu(t testing.TB) time.Duration {
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

// memory returns a size in MB from /proc/PID/status: VmHWM is the most that was ever resident, VmRSS what is now.
func (p *process) memory(t testing.TB, field string) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
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

// keepLog shows the end of what the process wrote and stores all of it with the test's artifacts.
func (p *process) keepLog(t testing.TB) {
	t.Logf("%s wrote last:\n%s", p.name, p.log.tail(2000))
	if p.kept == "" {
		return
	}
	name := strings.NewReplacer(":", "-", "/", "-", " ", "-").Replace(p.name) + ".log"
	if err := os.WriteFile(filepath.Join(p.kept, name), []byte(p.log.String()), 0o600); err != nil {
		t.Log(err)
	}
}

// output collects what a process writes. Safe for concurrent use.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write appends to the collected text.
func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(b)
}

// String returns all that was written so far.
func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

func (o *output) tail(n int) string {
	s := o.String()
	return s[max(0, len(s)-n):]
}
