// Package relay shows that lockproxy is transparent: every command other than a lock command
// reaches the upstream unchanged, and so do its replies reach the client. It has only tests, of
// the built binary; see lab.
package relay

import (
	"os"
	"testing"

	"lockproxy/integration/lab"
)

func TestMain(m *testing.M) { os.Exit(lab.Main(m)) }
