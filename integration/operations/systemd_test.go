package operations

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"lockproxy/integration/lab"
)

// startNotified opens the socket that systemd names in NOTIFY_SOCKET, and returns the messages
// that arrive, one a line.
func startNotified(t *testing.T) (socket string, told *lab.Output) {
	t.Helper()
	socket = filepath.Join(t.TempDir(), "notify")
	listener, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	told = &lab.Output{}
	go func() {
		buffer := make([]byte, 1000)
		for {
			n, err := listener.Read(buffer)
			if err != nil {
				return
			}
			told.Write(append(buffer[:n:n], '\n'))
		}
	}()
	return socket, told
}

// systemd gets ready, reloading and ready again, regular watchdog messages, and stopping.
func TestSystemdGetsStateChanges(t *testing.T) {
	t.Parallel()
	path, err := lab.Binary()
	if err != nil {
		t.Fatal(err)
	}
	socket, told := startNotified(t)
	want := func(text string) {
		t.Helper()
		lab.WaitFor(t, text, 2*lab.Patience, func() bool { return strings.Contains(told.String(), text) })
	}
	p := lab.Launch(t, "lockproxy", "env", "NOTIFY_SOCKET="+socket, "WATCHDOG_USEC=100000", path,
		"--listen", "127.0.0.1:0", "--upstream", lab.StartRedis(t).Addr, "--log-format", "json")
	want("READY=1\n")
	want("WATCHDOG=1\nWATCHDOG=1\n")
	p.Signal(syscall.SIGHUP)
	want("RELOADING=1\nMONOTONIC_USEC=")
	lab.WaitFor(t, "ready again", lab.Patience, func() bool {
		_, after, _ := strings.Cut(told.String(), "RELOADING=1")
		return strings.Contains(after, "READY=1\n")
	})
	p.Signal(syscall.SIGTERM)
	want("STOPPING=1\n")
	lab.WantExit(t, p, 0)
}

// After a SIGHUP while the proxy still waits for its masters, systemd does not start the units
// that depend on it.
func TestReloadDuringStartIsNotReady(t *testing.T) {
	t.Parallel()
	path, err := lab.Binary()
	if err != nil {
		t.Fatal(err)
	}
	socket, told := startNotified(t)
	silent, err := net.Listen("tcp", "127.0.0.1:0") // the start waits a second for it as upstream, and another as master
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	p := lab.Launch(t, "lockproxy", "env", "NOTIFY_SOCKET="+socket, path, "--listen", "127.0.0.1:0", "--upstream",
		silent.Addr().String(), "--log-format", "json")
	lab.WaitFor(t, "the first lines", lab.Patience, func() bool {
		return strings.Contains(p.Log.String(), "one master: ")
	})
	p.Signal(syscall.SIGHUP)
	for _, word := range []string{`"msg":"settings reloaded"`, `"msg":"ready"`} {
		lab.WaitFor(t, word, lab.Patience, func() bool { return strings.Contains(p.Log.String(), word) })
	}
	p.Signal(syscall.SIGTERM)
	lab.WaitFor(t, "the message STOPPING", lab.Patience, func() bool {
		return strings.Contains(told.String(), "STOPPING=1\n")
	})
	if got := told.String(); got != "READY=1\nSTOPPING=1\n" {
		t.Errorf("systemd got %q", got)
	}
}

// The proxy accepts on the sockets that systemd opened, and refuses sockets that its settings do
// not name.
func TestSocketActivationUsesSystemdSockets(t *testing.T) {
	t.Parallel()
	path, err := lab.Binary()
	if err != nil {
		t.Fatal(err)
	}
	redis := lab.StartRedis(t)
	activate := func(listen string, file *os.File) (*exec.Cmd, *lab.Output) {
		out := &lab.Output{}
		cmd := exec.Command("sh", "-c", `LISTEN_PID=$$ LISTEN_FDS=1 exec "$0" "$@"`, path, "--listen", listen, "--upstream",
			redis.Addr, "--log-format", "json")
		cmd.ExtraFiles, cmd.Stdout, cmd.Stderr = []*os.File{file}, out, out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { cmd.Process.Kill() })
		return cmd, out
	}
	opened, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	file, err := opened.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	early := lab.Dial(t, opened.Addr().String()) // connects before the proxy accepts
	early.Send(lab.Encode("PING"))
	opened.Close()

	cmd, out := activate(lab.FreeAddr(t), file)
	if err := cmd.Wait(); err == nil || !strings.Contains(out.String(),
		"systemd passes the socket "+opened.Addr().String()+", which listen does not name") {
		t.Errorf("with a socket of another address: %v\n%s", err, out)
	}
	cmd, out = activate(opened.Addr().String(), file)
	file.Close()
	early.Want("+PONG\r\n")
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("lockproxy: %v\n%s", err, out)
	}
}
