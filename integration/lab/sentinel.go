package lab

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lockproxy/integration/redistest"
)

// StartSentinel starts a Redis Sentinel with these lines of configuration. It does not restart.
func StartSentinel(t testing.TB, lines ...string) *Redis {
	t.Helper()
	path := redistest.Program(t)
	for range 20 { // another process may take the port before the server starts
		s := &Redis{Addr: FreeAddr(t), path: path, dir: redisDir(t)}
		host, port, _ := net.SplitHostPort(s.Addr)
		config := filepath.Join(s.dir, "sentinel.conf")
		text := fmt.Sprintf("bind %s\nport %s\ndir %s\n%s\n", host, port, s.dir, strings.Join(lines, "\n"))
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		s.Process = Launch(t, "sentinel "+s.Addr, path, config, "--sentinel")
		if s.up() {
			return s
		}
	}
	t.Fatal("start a Sentinel: got no free port in 20 tries")
	return nil
}
