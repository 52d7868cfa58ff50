// Package faults shows that locks exclude each other while masters, networks, clocks and proxies
// fail, and that nothing is left behind. It holds tests only, of the built binary; see lab.
package faults

import (
	"os"
	"testing"

	"lockproxy/integration/lab"
)

func TestMain(m *testing.M) { os.Exit(lab.Main(m)) }
