package tool

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"
)

// child is the command that a job runs while it holds the lock.
type child struct {
	*keeper
	command *exec.Cmd
	running <-chan error // the end of the command; nil when it has ended, or not begun

	over   bool             // the command has ended
	kill   <-chan time.Time // when to kill what runs; nil while it may run
	killed time.Time        // when that was
}

// runChild runs the command, stops it if the lock is lost, and releases the lock.
func (j *job) runChild(path string) int {
	h := &child{keeper: &keeper{job: j, deadline: j.granted.Add(j.ttl.Duration)}}
	defer h.close()
	if code := h.confirmFirst(); code != 0 {
		return code
	}
	if err := h.start(path); err != nil {
		h.unlock(time.Time{})
		return h.fail(exitCannotRun, "%s: %v", j.args[0], err)
	}
	h.serve(h.finished)
	takeTerminalBack()
	if h.lost {
		h.signalGroup(syscall.SIGKILL) // the rest of its group
		return exitLost
	}
	if !h.unlock(j.granted.Add(j.hold.Duration)) {
		const why = "it was not held any more at the end of the command"
		return h.fail(exitLost, "lock %s was lost: %s", j.allKeys(), why)
	}
	return exitCode(h.command)
}

// confirmFirst asks whether the lock is held before the command starts: after a WAIT the age of
// the grant is not known.
func (h *child) confirmFirst() int {
	h.ask()
	h.serve(func() bool { return h.lost || !h.confirmed.IsZero() })
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
	ours := []string{"LOCKPROXY_KEY", "LOCKPROXY_TOKEN", "LOCKPROXY_FENCE", "LOCKPROXY_SLOT"}
	h.command.Env = slices.DeleteFunc(slices.Clone(h.environ), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return slices.Contains(ours, name)
	})
	for i, value := range []string{h.key(), h.token, h.fence, h.slot} {
		if value != "" {
			h.command.Env = append(h.command.Env, ours[i]+"="+value)
		}
	}
	if err := h.command.Start(); err != nil {
		h.command = nil
		return err
	}
	ended := make(chan error, 1)
	h.running = ended
	go func() { ended <- h.command.Wait() }()
	return nil
}

// groupEvery is how often a group without its command is looked at.
const groupEvery = 20 * time.Millisecond

// serve keeps the lock, and stops the command if it is lost, until the given condition is true.
func (h *child) serve(until func() bool) {
	tick := time.NewTicker(h.checkEvery())
	defer tick.Stop()
	for !until() {
		var signals chan os.Signal // those before the start are for the command
		if h.command != nil {
			signals = h.signals
		}
		var early, look <-chan time.Time
		if !h.lost {
			early = time.After(time.Until(h.deadline) - h.reserve())
		}
		if h.over {
			look = time.After(groupEvery)
		}
		select {
		case <-h.running:
			h.commandEnded()
		case s := <-signals:
			h.signalGroup(s.(syscall.Signal))
		case f := <-h.link.frames:
			if h.receive(f) {
				h.lose("it is not held any more")
			}
		case m := <-h.moving:
			if h.moved(m) {
				h.lose("it is not held any more (" + h.trouble + ")")
			}
		case <-early:
			h.lose(h.doubt())
		case <-h.kill:
			h.signalGroup(syscall.SIGKILL)
			h.kill, h.killed = nil, time.Now()
		case <-tick.C:
			h.beat()
		case <-look:
		}
	}
}

// doubt returns the reason to count the lock as lost without an answer that says so.
func (h *child) doubt() string {
	if h.down {
		return "no proxy says that it is held; " + h.trouble
	}
	return "the proxy no longer says that it is held"
}

// commandEnded ends the processes that outlive the command, while the lock is still held.
func (h *child) commandEnded() {
	h.running, h.over = nil, true
	if !h.finished() {
		h.signalGroup(syscall.SIGTERM)
		h.kill = time.After(h.grace.Duration)
	}
}

// afterKill bounds the wait for the end of killed processes.
const afterKill = time.Second

// finished reports whether no process needs the lock any more. If it is lost, the remaining
// processes of the group get KILL.
func (h *child) finished() bool {
	switch {
	case !h.over:
		return false
	case h.lost || h.leaveChildren:
		return true
	case !h.killed.IsZero() && time.Since(h.killed) > afterKill:
		return true
	}
	return !groupAlive(h.command.Process.Pid)
}

// lose sends TERM to the command, and KILL after the grace, or earlier if the lock expires before
// that. If the lock has expired already, KILL comes after the grace.
func (h *child) lose(why string) {
	if h.lost {
		return
	}
	h.lost = true
	h.stopMoving()
	h.say("lock %s is lost: %s", h.allKeys(), why)
	if h.command == nil {
		return
	}
	h.signalGroup(syscall.SIGTERM)
	grace := h.grace.Duration
	if left := time.Until(h.deadline); left > 0 {
		grace = min(grace, left)
	}
	h.kill = time.After(grace)
}

// signalGroup sends s to the command and its children.
func (h *child) signalGroup(s syscall.Signal) {
	if h.command != nil && h.command.Process != nil {
		signalGroup(h.command.Process, s)
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
