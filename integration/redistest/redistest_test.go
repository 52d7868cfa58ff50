package redistest

import (
	"bufio"
	"net"
	"os"
	"testing"
)

// ask sends a command without arguments and returns the reply's first line.
func ask(t *testing.T, s *Server, command string) string {
	t.Helper()
	c, err := net.Dial(s.Network, s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Write([]byte(command + "\r\n")); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(c).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return line
}

// A server answers as soon as it is there, restarts at its address, and ends with its test, also
// if that has stopped it.
func TestServers(t *testing.T) {
	for name, start := range map[string]func(testing.TB, ...string) *Server{"socket": Start, "port": StartTCP} {
		var s *Server
		t.Run(name, func(t *testing.T) {
			s = start(t, "--databases", "3")
			if got := ask(t, s, "SELECT 2"); got != "+OK\r\n" {
				t.Errorf("SELECT: %q", got)
			}
			if got := ask(t, s, "SET key value"); got != "+OK\r\n" {
				t.Errorf("SET: %q", got)
			}
			s.Restart(t)
			if got := ask(t, s, "DBSIZE"); got != ":0\r\n" {
				t.Errorf("after a restart: %q", got)
			}
			if got := ask(t, s, "SELECT 3"); got[0] != '-' {
				t.Errorf("the arguments are gone: %q", got)
			}
			s.Pause(t)
		})
		if s == nil {
			t.Skip("there is no server")
		}
		if _, err := net.Dial(s.Network, s.Addr); err == nil {
			t.Errorf("%s: the server has outlived its test", name)
		}
		if _, err := os.Stat(s.dir); !os.IsNotExist(err) {
			t.Errorf("%s: its files have: %v", name, err)
		}
	}
}

// A server that refuses the PING has started, too.
func TestServersThatRefuse(t *testing.T) {
	Start(t, "--requirepass", "secret")
	Start(t, "--user", "default", "on", "nopass", "-@all")
}

// The environment names another program.
func TestProgram(t *testing.T) {
	t.Setenv(variable, os.Args[0])
	if got := Program(t); got != os.Args[0] {
		t.Errorf("%q, want %q", got, os.Args[0])
	}
}
