// Package attacks tests that no client can crash a proxy, fill its memory or stall other clients.
// It tests the built binary; see package lab.
package attacks

import (
	"os"
	"testing"

	"lockproxy/integration/lab"
)

func TestMain(m *testing.M) { os.Exit(lab.Main(m)) }
