// Package locks shows what LOCK, UNLOCK and EXTEND answer, who waits for whom, and that fencing
// numbers rise. It holds tests only, of the built binary; see lab.
package locks

import (
	"os"
	"testing"

	"lockproxy/integration/lab"
)

func TestMain(m *testing.M) { os.Exit(lab.Main(m)) }
