//go:build !linux

package lab

import "syscall"

// childAttributes has nothing to offer here: children of a test process that was killed live on.
func childAttributes() *syscall.SysProcAttr { return nil }
