package lab

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// scratch is a directory for the binary and the servers' working directories, removed after the
// last test.
var scratch string

// Main runs the tests of a package with a directory for their files, and returns the exit code.
// TestMain calls it.
func Main(m *testing.M) int {
	dir, err := os.MkdirTemp("", "lockproxy-integration-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	scratch = dir
	catchIgnored()
	runSideBySide()
	return m.Run()
}

// runSideBySide lets four tests of a package run at a time, because most of them wait most of the
// time. The flag -parallel overrides that.
func runSideBySide() {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		_ = flag.Set("test.parallel", "4")
	}
}

// catchIgnored catches signals that this process ignores since its start, for instance under nohup
// or in the background of a script. Children inherit ignored signals. They do not inherit caught
// ones, and tests rely on the default effect in children.
func catchIgnored() {
	for _, s := range []os.Signal{syscall.SIGHUP, syscall.SIGINT} {
		if signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s) // without a reader the signals have no effect here
		}
	}
}

// Binary builds the program once, with the race detector if the tests have it, and returns its
// path. INTEGRATION_BINARY may name another binary to test: one that several packages share, or an
// older or newer version.
var Binary = sync.OnceValues(func() (string, error) {
	return build("lockproxy", os.Getenv("INTEGRATION_BINARY"),
		Race)
})

// PlainBinary builds the program once without the race detector, for tests of much load and for
// comparisons. INTEGRATION_PLAIN_BINARY, or else INTEGRATION_BINARY, may name another binary.
var PlainBinary = sync.OnceValues(func() (string, error) {
	if !Race {
		return Binary()
	}
	given := cmp.Or(os.Getenv("INTEGRATION_PLAIN_BINARY"), os.Getenv("INTEGRATION_BINARY"))
	return build("lockproxy-plain", given, false)
})

// build builds the program, unless the caller names a binary. It runs in the program's module,
// because the tests' module may lack the program's dependencies.
func build(name, given string, race bool) (string, error) {
	if given != "" {
		return filepath.Abs(given)
	}
	root, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "lockproxy").Output()
	if err != nil {
		return "", fmt.Errorf("find the module lockproxy: %w", err)
	}
	path := filepath.Join(scratch, name)
	args := []string{"-C", strings.TrimSpace(string(root)), "build", "-o", path}
	if race {
		args = append(args, "-race")
	}
	out, err := exec.Command("go", append(args, "./cmd/lockproxy")...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build lockproxy: %w\n%s", err, out)
	}
	return path, nil
}

// Tool returns the path of a program that the tests need but do not build, such as redis-server.
// If it is missing, the test is skipped, or fails if CI is set, because there a skip goes
// unnoticed.
func Tool(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		missing(t, fmt.Errorf("%s not found: %w", name, err))
	}
	return path
}

// missing ends a test because of a missing part of the system.
func missing(t testing.TB, err error) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatal(err)
	}
	t.Skip(err)
}
