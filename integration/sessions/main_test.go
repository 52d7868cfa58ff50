// Package sessions shows what becomes of the locks of a connection, and of what it asked for, when
// it ends, in whatever way. It holds tests only, of the built binary; see lab.
package sessions

import (
	"os"
	"testing"

	"lockproxy/integration/lab"
)

func TestMain(m *testing.M) { os.Exit(lab.Main(m)) }
