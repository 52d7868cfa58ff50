// Package sessions tests the end of connections: the locks and pending commands of a client that
// leaves, in any way. It has only tests, of the built binary; see lab.
package sessions

import (
	"os"
	"testing"

	"lockproxy/integration/lab"
)

func TestMain(m *testing.M) { os.Exit(lab.Main(m)) }
