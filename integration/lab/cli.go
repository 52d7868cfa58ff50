package lab

import (
	"net"
	"testing"
)

// LaunchCli starts redis-cli as a client process of its own. It sends the command and keeps its
// connection, because it would repeat the command after a hundred seconds. Its log has the output.
func LaunchCli(t testing.TB, addr string, args ...string) *Process {
	t.Helper()
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	return Launch(t, "redis-cli", Tool(t, "redis-cli"),
		append([]string{"-h", host, "-p", port, "-r", "-1", "-i", "100"}, args...)...)
}
