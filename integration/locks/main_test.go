// Package locks tests the replies of LOCK, UNLOCK and EXTEND, the order of waiting clients, and
// that fencing numbers rise. It tests the built binary; see package lab.
package locks

import (
	"os"
	"testing"

	"lockproxy/integration/lab"
)

func TestMain(m *testing.M) { os.Exit(lab.Main(m)) }
