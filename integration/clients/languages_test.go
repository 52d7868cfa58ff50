package clients

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// Client libraries in all their modes: pools, pipelines, transactions, pub/sub, scripts, blocking
// commands, reconnects, with lock commands among the others. Each has a program in a folder here,
// which fails with the reason.

// TestRedisPyWorks needs Debian's python3-redis.
func TestRedisPyWorks(t *testing.T) {
	t.Parallel()
	runClient(t, redisPy(t), "python/client.py")
}

// redisPy returns the path of a Python that has redis-py.
func redisPy(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"/usr/bin/python3", "python3"} {
		asked := exec.Command(name, "-c", "import redis")
		asked.Dir = "python" // in this folder, Python would import the folder hiredis
		if asked.Run() == nil {
			return name
		}
	}
	lackInstalled(t, "python3 with redis-py")
	return ""
}

// TestHiredisWorks needs Debian's libhiredis-dev and a C compiler.
func TestHiredisWorks(t *testing.T) {
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

// TestIoredisWorks and TestNodeRedisWorks need Node and the modules that npm install fetches in
// clients/node.
func TestIoredisWorks(t *testing.T) {
	t.Parallel()
	runClient(t, node(t), "node/ioredis.js")
}

func TestNodeRedisWorks(t *testing.T) {
	t.Parallel()
	runClient(t, node(t), "node/noderedis.js")
}

// TestRedisRbWorks needs Debian's ruby-redis, TestPhpredisWorks Debian's php-redis and php-cli:
// test.sh does not install the first.
func TestRedisRbWorks(t *testing.T) {
	t.Parallel()
	runClient(t, ifRuns(t, "ruby", "-e", "require 'redis'"), "ruby/client.rb")
}

func TestPhpredisWorks(t *testing.T) {
	t.Parallel()
	runClient(t, ifRuns(t, "php", "-r", "exit(class_exists('Redis') ? 0 : 1);"), "php/client.php")
}

// lackInstalled skips a test that needs a program which test.sh installs; if CI is set it fails
// the test.
func lackInstalled(t *testing.T, what string) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatalf("%s is not installed", what)
	}
	t.Skipf("%s is not installed", what)
}

// node returns the name of Node, or skips the test. Neither Node nor the npm registry is required,
// even if CI is set.
func node(t *testing.T) string {
	t.Helper()
	if err := nodeMissing(); err != nil {
		t.Skip(err)
	}
	return "node"
}

func nodeMissing() error {
	if _, err := os.Stat("node/node_modules/ioredis"); err != nil {
		return errors.New("npm install was not run in integration/clients/node")
	}
	return missing("node", "-e", "0")
}

// ifRuns returns the name of a program if it succeeds with the arguments, and skips the test
// otherwise.
func ifRuns(t *testing.T, program string, args ...string) string {
	t.Helper()
	if err := missing(program, args...); err != nil {
		t.Skip(err)
	}
	return program
}

// missing returns an error if the program does not succeed with the arguments.
func missing(program string, args ...string) error {
	if out, err := exec.Command(program, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w %s", program, strings.Join(args, " "), err, out)
	}
	return nil
}

// runClient runs a client program against a proxy with an upstream and three masters. Host and
// port are its last arguments; the test logs its output.
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
