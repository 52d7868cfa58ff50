package lab

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"lockproxy/integration/redistest"
)

// holdNamespace starts a process in a network namespace of its own. The namespace ends with the
// process.
func holdNamespace(t testing.TB, name string) *Process {
	t.Helper()
	attributes := redistest.ChildAttributes()
	attributes.Cloneflags = syscall.CLONE_NEWNET
	return launchWith(t, name, nil, attributes, "sleep", "infinity")
}

// tryNamespace reports whether the system lets this process make a network namespace.
func tryNamespace() error {
	cmd := exec.Command("true")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("make a network namespace: %w %s", err, out)
	}
	return nil
}

// dial connects from the hub. It moves its thread there for a moment, because a socket belongs to
// the namespace of the thread that made it.
func (n *Net) dial(network, addr string) (net.Conn, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	home, err := os.Open(fmt.Sprintf("/proc/self/task/%d/ns/net", unix.Gettid()))
	if err != nil {
		return nil, err
	}
	defer home.Close()
	hub, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", n.hub.Cmd.Process.Pid))
	if err != nil {
		return nil, err
	}
	defer hub.Close()
	if err := unix.Setns(int(hub.Fd()), unix.CLONE_NEWNET); err != nil {
		return nil, err
	}
	defer func() {
		if err := unix.Setns(int(home.Fd()), unix.CLONE_NEWNET); err != nil {
			panic(fmt.Sprintf("a thread is lost in a namespace: %v", err))
		}
	}()
	return (&net.Dialer{Timeout: Patience}).Dial(network, addr)
}
