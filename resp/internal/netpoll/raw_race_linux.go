//go:build race

package netpoll

import (
	"errors"
	"syscall"
)

// rawRead and rawWrite are those of package syscall: they tell the race detector that what was written is read afterwards.
func rawRead(fd int, b []byte) (int, syscall.Errno) { return withErrno(syscall.Read(fd, b)) }

func rawWrite(fd int, b []byte) (int, syscall.Errno) { return withErrno(syscall.Write(fd, b)) }

func withErrno(n int, err error) (int, syscall.Errno) {
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return 0, errno
	}
	return n, 0
}
