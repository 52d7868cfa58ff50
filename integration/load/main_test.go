// Package load tests that clients wait and are served in turn if they ask for more than the
// masters can serve, and that slow masters cause no errors. It tests the built binary; see package
// lab.
package load

import (
	"os"
	"testing"

	"lockproxy/integration/lab"
)

func TestMain(m *testing.M) { os.Exit(lab.Main(m)) }
