//go:build !linux

package tool

import "syscall"

// groupAttributes gives a command a process group of its own.
func groupAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// takeTerminalBack does nothing: the command was not in the foreground.
func takeTerminalBack() {}
