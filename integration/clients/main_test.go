// Package clients shows that client libraries of several languages work with the proxy. It holds
// tests only, of the built binary; see lab. The folders below have programs of other languages.
package clients

import (
	"os"
	"testing"

	"lockproxy/integration/lab"
)

func TestMain(m *testing.M) { os.Exit(lab.Main(m)) }
