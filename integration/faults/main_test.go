// Package faults tests that locks exclude each other while masters, networks, clocks and proxies
// fail, and that no key is left afterwards. It tests the built binary; see package lab.
package faults

import (
	"os"
	"testing"

	"lockproxy/integration/lab"
)

func TestMain(m *testing.M) { os.Exit(lab.Main(m)) }
