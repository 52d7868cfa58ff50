//go:build race

package netpoll

import "syscall"

// rawIO calls package syscall, which makes the race detector order a read after the write of its
// bytes.
func rawIO(trap uintptr, fd int, b []byte) (n int, errno syscall.Errno) {
	do := syscall.Read
	if trap == syscall.SYS_WRITE {
		do = syscall.Write
	}
	n, err := do(fd, b)
	errno, _ = err.(syscall.Errno)
	return n, errno
}
