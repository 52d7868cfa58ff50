package integration

import (
	"net"
	"testing"
)

// launchCli starts redis-cli as a client process of its own. It sends the command, and keeps its connection: the same
// command would go out again after a hundred seconds. What it printed is in its log.
func launchCli(t testing.TB, addr string, args ...string) *process {
	t.Helper()
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	return launch(t, "redis-cli", tool(t, "redis-cli"), append([]string{"-h", host, "-p", port, "-r", "-1", "-i", "100"}, args...)...)
}
