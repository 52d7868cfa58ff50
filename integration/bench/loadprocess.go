package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

// loadProcess is a load process as its parent sees it.
type loadProcess struct {
	cmd      *exec.Cmd
	cancel   context.CancelFunc
	in       io.WriteCloser
	out      *bufio.Reader
	problems bytes.Buffer
}

// startLoad starts a load process. It is bounded in time.
func (r *rig) startLoad(order loadOrder) (*loadProcess, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(order)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(r.ctx, order.Settle+order.Span+2*time.Minute)
	l := &loadProcess{cmd: exec.CommandContext(ctx, self, "load", string(text)), cancel: cancel}
	l.cmd.SysProcAttr, l.cmd.Stderr = childAttributes(), &l.problems
	out, err := l.cmd.StdoutPipe()
	if err == nil {
		l.in, err = l.cmd.StdinPipe()
	}
	if err == nil {
		err = l.cmd.Start()
	}
	if err != nil {
		cancel()
		return nil, err
	}
	l.out = bufio.NewReader(out)
	return l, nil
}

// result lets the process run and returns its result.
func (l *loadProcess) result() (got loadResult, err error) {
	if err := l.await("ready"); err != nil {
		return got, err
	}
	if err := l.begin(); err != nil {
		return got, err
	}
	if err := l.await("done"); err != nil {
		return got, err
	}
	err = l.decode(&got)
	return got, err
}

// begin lets the process begin.
func (l *loadProcess) begin() error {
	_, err := io.WriteString(l.in, "go\n")
	return err
}

// decode reads the result of the process when it is done.
func (l *loadProcess) decode(got *loadResult) error {
	if err := json.NewDecoder(l.out).Decode(got); err != nil {
		l.stop() // standard error is complete then
		return fmt.Errorf("load: %w: %s", err, strings.TrimSpace(l.problems.String()))
	}
	return nil
}

// await reads the word that the process is to say next.
func (l *loadProcess) await(word string) error {
	line, err := l.out.ReadString('\n')
	if err == nil && strings.TrimSpace(line) == word {
		return nil
	}
	l.stop() // standard error is complete then
	return fmt.Errorf("load: %q instead of %s: %s", line, word, strings.TrimSpace(l.problems.String()))
}

// stop ends the process and waits for its end. It may be called again.
func (l *loadProcess) stop() {
	l.in.Close()
	l.cancel()
	l.cmd.Wait()
}
