//go:build !linux

package listen

import (
	"errors"
	"syscall"
)

// reusePort is for Linux alone: elsewhere the kernel would not share connections out.
func reusePort(string, string, syscall.RawConn) error {
	return errors.New("reuse-port works on Linux only")
}
