package tool

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// groupAttributes gives a command a process group of its own, in the foreground if this process is
// there. The kernel kills it if this process is killed, as the lock is free then.
func groupAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Foreground: inForeground(), Ctty: int(os.Stdin.Fd()), Pdeathsig: syscall.SIGKILL}
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
