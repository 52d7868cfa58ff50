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

// Main runs the tests of a package with a directory for what they need, and returns the exit code.
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

// runSideBySide lets four tests of a package run at a time, if -parallel says nothing else: most
// of them wait most of the time.
func runSideBySide() {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		_ = flag.Set("test.parallel", "4")
	}
}

// catchIgnored catches the signals that this process was started to ignore, as under nohup or in
// the background of a script. Children inherit what is ignored, and what is caught is at its
// default there: tests send these signals.
func catchIgnored() {
	for _, s := range []os.Signal{syscall.SIGHUP, syscall.SIGINT} {
		if signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s) // nobody reads them: they stay without effect here
		}
	}
}

// Binary builds the program once, with the race detector where the tests have it, and returns its
// path. Where INTEGRATION_BINARY names another binary that one is tested: so several packages
// share one, and an older or newer version can be compared.
var Binary = sync.OnceValues(func() (string, error) { return build("lockproxy", os.Getenv("INTEGRATION_BINARY"), Race) })

// PlainBinary builds the program once without the race detector, for what is compared with
// programs that have none. Where INTEGRATION_PLAIN_BINARY, or else INTEGRATION_BINARY, names
// another binary it is that one.
var PlainBinary = sync.OnceValues(func() (string, error) {
	if !Race {
		return Binary()
	}
	given := cmp.Or(os.Getenv("INTEGRATION_PLAIN_BINARY"), os.Getenv("INTEGRATION_BINARY"))
	return build("lockproxy-plain", given, false)
})

// build builds the program, unless a binary is given. It runs in the module of the program, because
// the tests may belong to a module that does not list what the program requires.
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
// Where it is missing the test is skipped, and fails if CI is set: there a skip would pass
// unnoticed.
func Tool(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		missing(t, fmt.Errorf("%s not found: %w", name, err))
	}
	return path
}

// missing ends a test that lacks what it needs of the system.
func missing(t testing.TB, err error) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatal(err)
	}
	t.Skip(err)
}
