// Package operations shows what operators rely on: settings, listening, TLS, Sentinel, reload,
// upgrade, HTTP, logs, the end on a signal, and the subcommands. It holds tests only, of the built
// binary; see lab.
package operations

import (
	"os"
	"testing"

	"lockproxy/integration/lab"
)

func TestMain(m *testing.M) { os.Exit(lab.Main(m)) }
