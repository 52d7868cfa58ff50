//go:build !linux

package redistest

import "syscall"

// ChildAttributes returns nil: here a child survives a test process that is killed.
func ChildAttributes() *syscall.SysProcAttr { return nil }
