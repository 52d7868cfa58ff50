//go:build unix

package main

import "syscall"

// maxFiles returns how many files and connections this process may have open; 0: not known.
func maxFiles() uint64 {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0
	}
	return uint64(limit.Cur)
}
