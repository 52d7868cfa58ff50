// Package load shows that clients wait and are served in turn if there are more than the masters
// can serve, and that slow masters cause no errors. It holds tests only, of the built binary; see
// lab.
package load

import (
	"os"
	"testing"

	"lockproxy/integration/lab"
)

func TestMain(m *testing.M) { os.Exit(lab.Main(m)) }
