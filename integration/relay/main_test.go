// Package relay shows that what is not a lock command reaches the upstream, and its replies the
// client, as if no proxy were there. It holds tests only, of the built binary; see lab.
package relay

import (
	"os"
	"testing"

	"lockproxy/integration/lab"
)

func TestMain(m *testing.M) { os.Exit(lab.Main(m)) }
