//go:build !race

package netpoll

import (
	"syscall"
	"unsafe"
)

// rawIO is a read or write of a socket that never blocks, so the scheduler need not know of it.
func rawIO(trap uintptr, fd int, b []byte) (int, syscall.Errno) {
	n, _, errno := syscall.RawSyscall(trap, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
	return int(n), errno
}
