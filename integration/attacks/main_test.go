// Package attacks shows what clients cannot do to a proxy: crash it, fill its memory, stall
// others. It holds tests only, of the built binary; see lab.
package attacks

import (
	"os"
	"testing"

	"lockproxy/integration/lab"
)

func TestMain(m *testing.M) { os.Exit(lab.Main(m)) }
