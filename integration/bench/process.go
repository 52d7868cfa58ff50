package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// process is a server that runs while it is measured.
type process struct {
	name string
	cmd  *exec.Cmd
	log  string        // file of its output
	done chan struct{} // closed when it has ended
}

// launch starts a server. It ends at the latest with this process, however that ends.
func (r *rig) launch(name, path string, args ...string) (*process, error) {
	log, err := os.CreateTemp(r.dir, filepath.Base(path)+"-*.log")
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(path, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = r.dir, log, log, childAttributes()
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	p := &process{name: name, cmd: cmd, log: log.Name(), done: make(chan struct{})}
	r.procs = append(r.procs, p)
	r.wg.Go(func() {
		defer close(p.done)
		cmd.Wait() // its end is seen by who waits for its answers
	})
	return p, nil
}

// stop ends a server and waits for its end.
func (p *process) stop() {
	p.cmd.Process.Kill()
	<-p.done
}

// words returns the end of a server's output, for errors.
func (p *process) words() string {
	text, _ := os.ReadFile(p.log)
	text = bytes.TrimSpace(text)
	return string(text[max(0, len(text)-600):])
}

// cpu is the processor time that a server's threads have used. It is what utime and stime in
// /proc/PID/stat add up to, in nanoseconds instead of hundredths of a second.
func (p *process) cpu() (time.Duration, error) {
	threads, err := filepath.Glob(p.proc("task/*/schedstat"))
	if err != nil || len(threads) == 0 {
		return 0, fmt.Errorf("%s is gone, or the system has no schedstat", p.name)
	}
	var sum int64
	for _, path := range threads {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has just ended
		}
		word, _, _ := strings.Cut(string(text), " ")
		used, err := strconv.ParseInt(word, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%s: %q", path, text)
		}
		sum += used
	}
	return time.Duration(sum), nil
}

// forgetPeak resets peak to the memory that is resident now.
func (p *process) forgetPeak() error { return os.WriteFile(p.proc("clear_refs"), []byte("5"), 0) }

// peak is the most memory, in bytes, that was resident at a time.
func (p *process) peak() (float64, error) { return p.memory("VmHWM:") }

// resident is the memory, in bytes, that is resident now.
func (p *process) resident() (float64, error) { return p.memory("VmRSS:") }

// begin starts a measurement: peak begins anew, and the processor time so far is returned. A
// server that is not ours to measure has no process.
func (p *process) begin() (time.Duration, error) {
	if p == nil {
		return 0, nil
	}
	if err := p.forgetPeak(); err != nil {
		return 0, err
	}
	return p.cpu()
}

// since ends a measurement: the processor time used, and the peak.
func (p *process) since(begin time.Duration) (used time.Duration, peak float64, err error) {
	if p == nil {
		return 0, 0, nil
	}
	used, err1 := p.cpu()
	peak, err2 := p.peak()
	return used - begin, peak, errors.Join(err1, err2)
}

func (p *process) memory(field string) (float64, error) { return kilobytes(p.proc("status"), field) }

func (p *process) proc(file string) string {
	return fmt.Sprintf("/proc/%d/%s", p.cmd.Process.Pid, file)
}

// kilobytes reads one field, given in kB, of a file like /proc/meminfo, and returns bytes.
func kilobytes(path, field string) (float64, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if words := strings.Fields(line); len(words) > 1 && words[0] == field {
			n, err := strconv.ParseFloat(words[1], 64)
			return n * 1024, err
		}
	}
	return 0, fmt.Errorf("%s has no %s", path, field)
}
