package clients

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// Client libraries in their own ways of working: pools, pipelines, transactions, pub/sub, scripts,
// blocking commands, reconnecting, with lock commands among them. Each has a program in the folder
// clients that fails with what went wrong.

// TestRedisPy needs Debian's python3-redis.
func TestRedisPy(t *testing.T) {
	t.Parallel()
	runClient(t, redisPy(t), "python/client.py")
}

// redisPy returns the path of a Python that has redis-py.
func redisPy(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"/usr/bin/python3", "python3"} {
		asked := exec.Command(name, "-c", "import redis")
		asked.Dir = "python" // here, the folder hiredis would pass for a module
		if asked.Run() == nil {
			return name
		}
	}
	lackInstalled(t, "python3 with redis-py")
	return ""
}

// TestHiredis needs Debian's libhiredis-dev and a C compiler.
func TestHiredis(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/usr/include/hiredis/hiredis.h"); err != nil {
		lackInstalled(t, "hiredis")
	}
	program := filepath.Join(t.TempDir(), "client")
	build := exec.Command(lab.Tool(t, "cc"), "-Wall", "-Werror", "-O1", "-o", program, "hiredis/client.c", "-lhiredis")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	runClient(t, program)
}

// TestIoredis and TestNodeRedis need Node and what npm install fetches in clients/node.
func TestIoredis(t *testing.T) {
	t.Parallel()
	runClient(t, node(t), "node/ioredis.js")
}

func TestNodeRedis(t *testing.T) {
	t.Parallel()
	runClient(t, node(t), "node/noderedis.js")
}

// TestRedisRb needs Debian's ruby-redis, TestPhpredis Debian's php-redis and php-cli: too large to
// install for a test.
func TestRedisRb(t *testing.T) {
	t.Parallel()
	runClient(t, ifRuns(t, "ruby", "-e", "require 'redis'"), "ruby/client.rb")
}

func TestPhpredis(t *testing.T) {
	t.Parallel()
	runClient(t, ifRuns(t, "php", "-r", "exit(class_exists('Redis') ? 0 : 1);"), "php/client.php")
}

// lackInstalled skips a test for want of something that test.sh installs; where CI is set it must
// be there.
func lackInstalled(t *testing.T, what string) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatalf("%s is not installed", what)
	}
	t.Skipf("%s is not installed", what)
}

// node returns the path of Node. Neither it nor the npm registry need be there, in CI either.
func node(t *testing.T) string {
	t.Helper()
	if _, err := os.Stat("node/node_modules/ioredis"); err != nil {
		t.Skip("npm install was not run in integration/clients/node")
	}
	return ifRuns(t, "node", "-e", "0")
}

// ifRuns returns the path of a program if it can do what the arguments say, and skips the test if
// not.
func ifRuns(t *testing.T, program string, args ...string) string {
	t.Helper()
	if out, err := exec.Command(program, args...).CombinedOutput(); err != nil {
		t.Skipf("%s %s: %v %s", program, strings.Join(args, " "), err, out)
	}
	return program
}

// runClient runs a client program against a proxy before an upstream and three masters. Its last
// argument but one is the host, the last the port; what it prints is the test's log.
func runClient(t *testing.T, program string, args ...string) {
	t.Helper()
	c := lab.StartCluster(t, 3)
	host, port, _ := net.SplitHostPort(c.Addr)
	runProgram(t, program, append(args, host, port)...)
	lab.WantNoStray(t, c.Masters, c.Proxy)
}

func runProgram(t *testing.T, program string, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, program, args...).CombinedOutput()
	if err != nil || !strings.HasSuffix(strings.TrimSpace(string(out)), "all ok") {
		t.Errorf("%s: %v\n%s", filepath.Base(program), err, out)
	}
	t.Logf("%s", out)
}
