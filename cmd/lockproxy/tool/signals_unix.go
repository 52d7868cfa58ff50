//go:build unix

package tool

import (
	"os"
	"syscall"
)

// forwardable are the signals that a command may get.
var forwardable = []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1,
	syscall.SIGUSR2}

// signalGroup sends s to the process group that command leads.
func signalGroup(command *os.Process, s syscall.Signal) { _ = syscall.Kill(-command.Pid, s) }
