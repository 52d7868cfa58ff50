//go:build unix

package redistest

import (
	"os"
	"syscall"
)

var pause, resume os.Signal = syscall.SIGSTOP, syscall.SIGCONT
