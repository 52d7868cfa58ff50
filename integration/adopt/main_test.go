// Package adopt tests that lock libraries, unchanged, get quorum locks from the lock listener:
// that they see the same as on one Redis, and that a lock survives what one Redis does not. It has
// only tests, of the built binary; see lab. Its folders have a program for each language.
package adopt

import (
	"fmt"
	"os"
	"testing"

	"lockproxy/integration/lab"
)

// scratch is a directory for the Go program.
var scratch string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "lockproxy-adopt-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	scratch = dir
	code := lab.Main(m)
	os.RemoveAll(dir)
	os.Exit(code)
}
