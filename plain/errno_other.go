//go:build !windows

package plain

import "syscall"

const (
	errnoRefused = syscall.ECONNREFUSED
	errnoInUse   = syscall.EADDRINUSE
)

var errnosReset = []error{syscall.ECONNRESET, syscall.EPIPE}
