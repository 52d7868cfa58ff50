package lab

import "syscall"

// childAttributes makes the system end a child when the test process dies without running its
// clean-ups.
func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
