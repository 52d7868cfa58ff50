package redistest

import "syscall"

// ChildAttributes makes the system end a child when the test process dies without running its
// clean-ups.
func ChildAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
