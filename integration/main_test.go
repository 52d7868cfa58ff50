// Package integration drives the built lockproxy binary, as an operator would start it, against real Redis
// servers and injected faults. It holds tests only.
//
// Every server is a process of its own on a free loopback port, ended by its process id when its test is over.
// Nothing here imports the project: what is checked is what a client on a socket can see.
package integration

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// scratch is a directory for the binary and the servers' working directories, removed after the last test.
var scratch string

// slack multiplies every bound on time: the race detector makes the binary several times slower.
var slack = map[bool]time.Duration{false: 1, true: 5}[raceEnabled]

// patience is how long a test waits for something that should happen at once. It must stay well under the ttl of 60s
// that most locks have here, or expiry would pass for a release.
var patience = map[bool]time.Duration{false: 10 * time.Second, true: 20 * time.Second}[raceEnabled]

func TestMain(m *testing.M) { os.Exit(runTests(m)) }

func runTests(m *testing.M) int {
	dir, err := os.MkdirTemp("", "lockproxy-integration-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	scratch = dir
	return m.Run()
}

// binary builds the program once, with the race detector where the tests have it, and returns its path.
var binary = sync.OnceValues(func() (string, error) {
	path := filepath.Join(scratch, "lockproxy")
	args := []string{"build", "-o", path}
	if raceEnabled {
		args = append(args, "-race")
	}
	out, err := exec.Command("go", append(args, "lockproxy/cmd/lockproxy")...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build lockproxy: %w\n%s", err, out)
	}
	return path, nil
})

// tool returns the path of a program that the tests need but do not build, such as redis-server.
// Where it is missing the test is skipped, and fails if CI is set: there a skip would pass unnoticed.
func tool(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil && os.Getenv("CI") != "" {
		t.Fatalf("%s not found: %v", name, err)
	}
	if err != nil {
		t.Skipf("%s not found: %v", name, err)
	}
	return path
}

// waitFor polls until done returns true, and fails the test after timeout.
func waitFor(t testing.TB, what string, timeout time.Duration, done func() bool) {
	t.Helper()
	if !poll(timeout, done) {
		t.Fatalf("%s: not within %v", what, timeout)
	}
}

// poll asks done every few milliseconds until it returns true or timeout has passed, and returns its last answer.
func poll(timeout time.Duration, done func() bool) bool {
	deadline := time.After(timeout)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		if done() {
			return true
		}
		select {
		case <-deadline:
			return done()
		case <-tick.C:
		}
	}
}
