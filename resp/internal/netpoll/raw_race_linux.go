//go:build race

package netpoll

import "syscall"

// rawIO calls package syscall, which tells the race detector that what was written is read
// afterwards.
func rawIO(trap uintptr, fd int, b []byte) (n int, errno syscall.Errno) {
	do := syscall.Read
	if trap == syscall.SYS_WRITE {
		do = syscall.Write
	}
	n, err := do(fd, b)
	errno, _ = err.(syscall.Errno)
	return n, errno
}
