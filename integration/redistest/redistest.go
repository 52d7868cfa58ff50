// Package redistest starts a redis-server for a test: [Start] on a Unix socket, [StartTCP] on a
// port. The server ends with the test. It has no persistence unless its arguments ask for it.
//
// LOCKPROXY_TEST_REDIS names another program to start, such as /usr/bin/valkey-server.
package redistest

import (
	"bufio"
	"bytes"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// variable names the program in the environment.
const variable = "LOCKPROXY_TEST_REDIS"

const (
	patience  = time.Minute // for a start on a busy machine
	portTries = 20
)

// Server is a redis-server. Its methods belong on the goroutine of the test.
type Server struct {
	Network string // unix or tcp
	Addr    string // of Network; stays the same over a restart
	program string
	dir     string
	args    []string

	process *os.Process
	ended   chan struct{}
	output  bytes.Buffer // of the process; read it after ended
}

// Program returns the path of the redis-server. If there is none, the test is skipped, or fails if
// CI is set. It also fails if there is no program that LOCKPROXY_TEST_REDIS names.
func Program(t testing.TB) string {
	t.Helper()
	name := os.Getenv(variable)
	if name != "" {
		path, err := exec.LookPath(name)
		if err != nil {
			t.Fatalf("%s: %v", variable, err)
		}
		return path
	}
	path, err := exec.LookPath("redis-server")
	switch {
	case err == nil:
		return path
	case os.Getenv("CI") != "":
		t.Fatal("redis-server is not installed")
	}
	t.Skip("redis-server is not installed")
	return ""
}

// Start starts a server that listens on a Unix socket alone, and waits until it answers. args go
// to its command line.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	s := &Server{Network: "unix", program: Program(t), dir: workDir(t)}
	s.Addr = filepath.Join(s.dir, "socket")
	s.args = append([]string{"--port", "0", "--unixsocket", s.Addr}, args...)
	if !s.start(t) {
		t.Fatalf("%s does not start:\n%s", s.program, s.output.String())
	}
	return s
}

// StartTCP is Start for a server that listens on a free port of the loopback interface alone.
func StartTCP(t testing.TB, args ...string) *Server {
	t.Helper()
	s := &Server{Network: "tcp", program: Program(t), dir: workDir(t)}
	for range portTries { // another process may take the port first
		s.Addr = FreeAddr(t)
		host, port, _ := net.SplitHostPort(s.Addr)
		s.args = append([]string{"--bind", host, "--port", port}, args...)
		if s.start(t) {
			return s
		}
	}
	t.Fatalf("%s does not start:\n%s", s.program, s.output.String())
	return nil
}

// workDir makes a directory whose name is short: that of a Unix socket has about 100 bytes.
func workDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "redis-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// start runs the program and waits until it answers. It returns false if the program ended before.
func (s *Server) start(t testing.TB) bool {
	t.Helper()
	base := []string{"--save", "", "--appendonly", "no", "--daemonize", "no", "--dir", s.dir}
	command := exec.Command(s.program, append(base, s.args...)...)
	s.output.Reset()
	command.Stdout, command.Stderr, command.SysProcAttr = &s.output, &s.output, ChildAttributes()
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	s.process, s.ended = command.Process, ended
	go func() {
		_ = command.Wait()
		close(ended)
	}()
	t.Cleanup(func() {
		_ = command.Process.Kill()
		<-ended
	})
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for late := time.After(patience); ; {
		answered := s.answers()
		select {
		case <-ended: // an answer was that of another server
			return false
		case <-late:
			s.Kill()
			return false
		case <-tick.C:
		}
		if answered {
			return true
		}
	}
}

// answers reports whether the server answers a PING. Errors count, because a test may take the
// right to PING from the default user.
func (s *Server) answers() bool {
	c, err := net.DialTimeout(s.Network, s.Addr, time.Second)
	if err != nil {
		return false
	}
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(time.Second))
	if _, err := c.Write([]byte("PING\r\n")); err != nil {
		return false
	}
	line, err := bufio.NewReader(c).ReadString('\n')
	return err == nil && !strings.HasPrefix(line, "-LOADING")
}

// Signal sends a signal to the server.
func (s *Server) Signal(t testing.TB, signal os.Signal) {
	t.Helper()
	if err := s.process.Signal(signal); err != nil {
		t.Fatal(err)
	}
}

// Pause stops the server until Resume. On a system without signals it skips the test.
func (s *Server) Pause(t testing.TB) {
	t.Helper()
	if pause == nil {
		t.Skip("this system cannot pause a server")
	}
	s.Signal(t, pause)
}

// Resume lets a paused server go on.
func (s *Server) Resume(t testing.TB) {
	t.Helper()
	s.Signal(t, resume)
}

// Kill ends the server at once, and waits for its end. It is harmless if the server has ended.
func (s *Server) Kill() {
	_ = s.process.Kill()
	<-s.ended
}

// Restart ends the server and starts it again at its address, with the same arguments and files.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	s.Kill()
	if !s.start(t) {
		t.Fatalf("%s does not start again:\n%s", s.program, s.output.String())
	}
}
