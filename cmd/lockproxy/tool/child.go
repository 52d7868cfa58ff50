package tool

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// child is the command that a job runs while it holds the lock.
type child struct {
	*job
	command *exec.Cmd
	ended   chan error // of the command

	deadline time.Time // the end of the validity, by the proxy's last answer
	asked    time.Time // when the open question was sent; zero: none is open
	lost     bool
	kill     <-chan time.Time // when to kill the command; nil while the lock is held
}

// checkEvery is how often the proxy is asked whether the lock is held.
func (j *job) checkEvery() time.Duration {
	return min(max(j.ttl/6, 20*time.Millisecond), 2*time.Second)
}

// runChild runs the command, stops it if the lock is lost, and releases the lock.
func (j *job) runChild(path string) int {
	h := &child{job: j, ended: make(chan error, 1)}
	if code := h.confirm(); code != 0 {
		return code
	}
	if err := h.start(path); err != nil {
		h.unlock()
		return h.fail(exitCannotRun, "%s: %v", j.args[0], err)
	}
	h.watch()
	takeTerminalBack()
	if h.lost {
		h.signalGroup(syscall.SIGKILL) // the rest of its group
		return exitLost
	}
	h.unlock()
	return exitCode(h.command)
}

// confirm asks whether the lock is held before the command starts: after a WAIT the age of the
// grant is not known.
func (h *child) confirm() int {
	h.ask()
	timeout := time.After(h.ttl)
	for !h.asked.IsZero() && !h.lost {
		select {
		case f := <-h.frames:
			h.receive(f)
		case <-timeout:
			h.lose("no answer from " + h.client.name)
		}
	}
	if !h.lost && h.deadline.IsZero() {
		h.lose("the masters cannot confirm it")
	}
	if h.lost {
		return exitUnavailable
	}
	return 0
}

// start starts the command in a process group of its own, in the foreground if there is a
// terminal.
func (h *child) start(path string) error {
	h.command = exec.Command(path, h.args[1:]...)
	h.command.Args[0] = h.args[0]
	h.command.Stdin, h.command.Stdout, h.command.Stderr = os.Stdin, h.stdout, h.stderr
	h.command.SysProcAttr = groupAttributes()
	ours := []string{"LOCKPROXY_KEY=", "LOCKPROXY_TOKEN=", "LOCKPROXY_FENCE="}
	h.command.Env = slices.DeleteFunc(slices.Clone(h.environ), func(entry string) bool {
		return slices.ContainsFunc(ours, func(name string) bool { return strings.HasPrefix(entry, name) })
	})
	for i, value := range []string{h.key, h.token, h.fence} {
		h.command.Env = append(h.command.Env, ours[i]+value)
	}
	if err := h.command.Start(); err != nil {
		return err
	}
	go func() { h.ended <- h.command.Wait() }()
	return nil
}

// watch returns when the command has ended.
func (h *child) watch() {
	tick := time.NewTicker(h.checkEvery())
	defer tick.Stop()
	frames := h.frames
	for {
		var early <-chan time.Time
		if !h.lost {
			early = time.After(time.Until(h.deadline) - min(h.grace, h.ttl/3))
		}
		select {
		case <-h.ended:
			return
		case s := <-h.signals:
			h.signalGroup(s.(syscall.Signal))
		case f := <-frames:
			if h.receive(f); f.err != nil {
				frames = nil
			}
		case <-early:
			h.lose("the proxy no longer says that it is held")
		case <-h.kill:
			h.signalGroup(syscall.SIGKILL)
			h.kill = nil
		case <-tick.C:
			if h.asked.IsZero() && !h.lost {
				h.ask()
			}
		}
	}
}

// ask sends LOCKINFO.
func (h *child) ask() {
	h.asked = time.Now()
	h.client.SetWriteDeadline(h.asked.Add(h.ttl))
	if err := h.client.send("LOCKINFO", h.key); err != nil {
		h.lose(err.Error())
	}
}

// receive handles a reply or push of the proxy.
func (h *child) receive(f frame) {
	switch {
	case f.err != nil:
		h.lose(f.err.Error())
		return
	case f.kind == '>':
		if len(f.list) == 4 && f.list[0].text == "lock" && f.list[1].text == "lost" && f.list[3].text == h.token {
			h.lose("the proxy says so")
		}
		return
	}
	asked := h.asked
	h.asked = time.Time{}
	if f.kind == '-' {
		return // the proxy does not know now; the deadline stands, and it is asked again
	}
	info := f.fields()
	ttl, err := strconv.ParseInt(info["ttl"], 10, 64)
	if f.null || err != nil || info["owner"] != h.label {
		h.lose("another holds it, or nobody")
		return
	}
	left := time.Duration(ttl) * time.Millisecond
	h.deadline = asked.Add(left - left/100 - 2*time.Millisecond)
}

// lose sends TERM to the command, and KILL after the grace or when the lock runs out, whichever
// comes first. If the lock has run out already, KILL comes after the grace.
func (h *child) lose(why string) {
	if h.lost {
		return
	}
	h.lost = true
	h.say("lock %s is lost: %s", h.key, why)
	if h.command == nil {
		return
	}
	h.signalGroup(syscall.SIGTERM)
	grace := h.grace
	if left := time.Until(h.deadline); left > 0 {
		grace = min(grace, left)
	}
	h.kill = time.After(grace)
}

// signalGroup sends s to the command and its children.
func (h *child) signalGroup(s syscall.Signal) {
	if h.command != nil && h.command.Process != nil {
		_ = syscall.Kill(-h.command.Process.Pid, s)
	}
}

// unlockTimeout bounds the release at the end. Closing the connection releases the lock as well.
const unlockTimeout = 2 * time.Second

// unlock releases the lock and waits for the answer, so that the lock is free when lockproxy run
// ends.
func (h *child) unlock() {
	ctx, cancel := context.WithTimeout(context.Background(), unlockTimeout)
	defer cancel()
	h.client.SetWriteDeadline(time.Now().Add(unlockTimeout))
	if err := h.client.send("UNLOCK", h.key, h.token); err != nil {
		return
	}
	answers := 1
	if !h.asked.IsZero() {
		answers++ // the answer to LOCKINFO comes first
	}
	for answers > 0 {
		select {
		case f := <-h.frames:
			switch {
			case f.err != nil:
				return
			case f.kind != '>':
				answers--
			}
		case <-ctx.Done():
			return
		}
	}
}

// exitCode returns the exit code of lockproxy run after the command has ended.
func exitCode(command *exec.Cmd) int {
	state := command.ProcessState
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return signalCode(status.Signal())
	}
	return state.ExitCode()
}
