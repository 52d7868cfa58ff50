// Package compare puts lockproxy and well-known Redlock libraries before the same masters and the
// same faults, and counts
// what should not happen. `sh integration/compare/run.sh` does so at length, and writes RESULT.md; the test of the package
// does so once and briefly, for lockproxy, whose every count must be 0, and for redsync, which
// shows that the faults bite.
//
// Every round has masters of its own. Keys are named alike for all: what lockproxy calls k is
// lock:k for the libraries.
package compare

import (
	"os"
	"testing"

	"lockproxy/integration/lab"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
)

func TestMain(m *testing.M) {
	redis.SetLogger(&logging.VoidLogger{}) // of broken connections there will be many
	os.Exit(lab.Main(m))
}
