//go:build unix && !linux

package tool

import (
	"errors"
	"syscall"
)

// groupAttributes gives a command a process group of its own.
func groupAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// takeTerminalBack is empty: the command was not in the foreground.
func takeTerminalBack() {}

// groupAlive reports whether a group has a process.
func groupAlive(group int) bool { return !errors.Is(syscall.Kill(-group, 0), syscall.ESRCH) }
