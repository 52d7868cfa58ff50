package main

import "syscall"

// childAttributes makes the system end a child when this process dies without ending it.
func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

// fileLimit is enough for the two ends of 10,000 connections and their neighbours.
const fileLimit = 65536

// raiseFileLimit lets this process and its children open as many files as the measurements of idle
// connections need, or as many as it may, and returns how many that are.
func raiseFileLimit() (int, error) {
	wanted := syscall.Rlimit{Cur: fileLimit, Max: fileLimit}
	if syscall.Setrlimit(syscall.RLIMIT_NOFILE, &wanted) == nil {
		return fileLimit, nil
	}
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0, err
	}
	limit.Cur = min(limit.Max, fileLimit)
	return int(limit.Cur), syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit)
}
