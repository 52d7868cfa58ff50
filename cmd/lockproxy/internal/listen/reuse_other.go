//go:build !linux

package listen

import (
	"errors"
	"syscall"
)

// reusePort fails: outside Linux the kernel would not distribute connections.
func reusePort(string, string, syscall.RawConn) error {
	return errors.New("reuse-port works on Linux only")
}
