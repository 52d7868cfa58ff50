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

// runSideBySide lets four tests of a package run at a time, unless -parallel is given: most of
// them wait most of the time.
func runSideBySide() {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		_ = flag.Set("test.parallel", "4")
	}
}

// catchIgnored catches the signals that this process was started to ignore, for instance under
// nohup or in the background of a script. Children inherit ignored signals; caught ones have their
// default effect there, which tests rely on.
func catchIgnored() {
	for _, s := range []os.Signal{syscall.SIGHUP, syscall.SIGINT} {
		if signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s) // the channel is never read: the signals have no effect here
		}
	}
}

// Binary builds the program once, with the race detector if the tests have it, and returns its
// path. If INTEGRATION_BINARY names another binary, that one is tested: so several packages share
// one, and an older or newer version can be compared.
var Binary = sync.OnceValues(func() (string, error) { return build("lockproxy", os.Getenv("INTEGRATION_BINARY"), Race) })

// PlainBinary builds the program once without the race detector, for comparisons with programs
// that have none. INTEGRATION_PLAIN_BINARY, or else INTEGRATION_BINARY, may name another binary.
var PlainBinary = sync.OnceValues(func() (string, error) {
	if !Race {
		return Binary()
	}
	given := cmp.Or(os.Getenv("INTEGRATION_PLAIN_BINARY"), os.Getenv("INTEGRATION_BINARY"))
	return build("lockproxy-plain", given, false)
})

// build builds the program, unless a binary is given. It runs in the module of the program,
// because the tests may belong to a module that does not list the program's dependencies.
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
// Without it the test is skipped, or fails if CI is set: there a skip would pass unnoticed.
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
