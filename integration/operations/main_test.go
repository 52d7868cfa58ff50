// Package operations tests the features that operators rely on: settings, listening, TLS,
// Sentinel, reload, upgrade, HTTP, logs, the end on a signal, and the subcommands. It has only
// tests, of the built binary; see lab.
package operations

import (
	"os"
	"testing"

	"lockproxy/integration/lab"
)

func TestMain(m *testing.M) { os.Exit(lab.Main(m)) }
