package tool

import (
	"os"
	"syscall"

	"golang.org/x/sys/windows"
)

// forwardable are the events of a console: Go reports Ctrl-C as SIGINT, and the end of the console
// or of the session as SIGTERM.
var forwardable = []os.Signal{syscall.SIGINT, syscall.SIGTERM}

// groupAttributes lets signalGroup send Ctrl-Break to a command.
func groupAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: windows.CREATE_NEW_PROCESS_GROUP}
}

// signalGroup sends Ctrl-Break to the command and its children on this console. SIGKILL ends the
// command only: Windows has no signals, and its process groups cannot be killed.
func signalGroup(command *os.Process, s syscall.Signal) {
	if s == syscall.SIGKILL {
		_ = command.Kill()
		return
	}
	_ = windows.GenerateConsoleCtrlEvent(windows.CTRL_BREAK_EVENT, uint32(command.Pid))
}

// groupAlive is false: processes that outlive the command are not known.
func groupAlive(int) bool { return false }

// takeTerminalBack is empty: Windows has no foreground group.
func takeTerminalBack() {}
