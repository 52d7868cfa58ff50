package tool

import (
	"bytes"
	"errors"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// groupAttributes gives a command a process group of its own, in the foreground if this process is
// there. The kernel kills the command if this process is killed, because then the lock is no
// longer renewed.
func groupAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Foreground: inForeground(), Ctty: int(os.Stdin.Fd()),
		Pdeathsig: syscall.SIGKILL}
}

// inForeground reports whether this process is in the foreground of the terminal on stdin.
func inForeground() bool {
	group, err := unix.IoctlGetInt(int(os.Stdin.Fd()), unix.TIOCGPGRP)
	return err == nil && group == syscall.Getpgrp()
}

// takeTerminalBack puts this process into the foreground again.
func takeTerminalBack() {
	fd := int(os.Stdin.Fd())
	if group, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP); err != nil || group == syscall.Getpgrp() {
		return
	}
	signal.Ignore(syscall.SIGTTOU)
	_ = unix.IoctlSetPointerInt(fd, unix.TIOCSPGRP, syscall.Getpgrp())
}

// groupAlive reports whether a process of a group runs. Zombies do not count: they stay if process
// 1 does not wait for them, for example in a container.
func groupAlive(group int) bool {
	if errors.Is(syscall.Kill(-group, 0), syscall.ESRCH) {
		return false
	}
	processes, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil || len(processes) == 0 {
		return true
	}
	for _, path := range processes {
		text, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		// "pid (name) state parent group ...", and the name may be anything
		fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
		if len(fields) < 3 || string(fields[2]) != strconv.Itoa(group) {
			continue
		}
		if !bytes.ContainsAny(fields[0], "ZX") {
			return true
		}
	}
	return false
}
