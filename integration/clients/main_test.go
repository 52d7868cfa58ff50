// Package clients tests that client libraries of several languages work with the proxy. It has
// only tests, of the built binary; see lab. Its folders have programs in other languages.
package clients

import (
	"os"
	"testing"

	"lockproxy/integration/lab"
)

func TestMain(m *testing.M) { os.Exit(lab.Main(m)) }
