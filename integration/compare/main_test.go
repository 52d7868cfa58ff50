// Package compare exposes lockproxy and well-known Redlock libraries to the same faults on the
// same masters, and counts violations. `sh integration/compare/run.sh` does so at length, and
// writes RESULT.md; the package's tests do so briefly, for lockproxy, whose counts must be 0, and
// for redsync, which proves that the faults have an effect.
//
// Every round has masters of its own. All subjects use the same keys: lockproxy's k is lock:k for
// the libraries.
package compare

import (
	"os"
	"testing"

	"lockproxy/integration/lab"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
)

func TestMain(m *testing.M) {
	redis.SetLogger(&logging.VoidLogger{}) // of the many broken connections
	os.Exit(lab.Main(m))
}
