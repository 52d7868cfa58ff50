package load

import (
	"sync"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// defaults are settings that lab replaces for tests on a busy machine. Load alone must not make
// that necessary.
var defaults = []string{"--master-timeout", "50ms"}

// TestSimultaneousLocks: thousands of clients that send a LOCK at the same instant, as after an
// upgrade of a proxy, all get it.
func TestSimultaneousLocks(t *testing.T) {
	l := lab.Start(t, lab.Config{Masters: 5, Plain: true, Flags: defaults})
	all := gather(t, l.Proxies[0], "job", lab.Long(4000, 8000))
	var o outcome
	var wg sync.WaitGroup
	start := time.Now()
	for _, c := range all {
		wg.Go(func() {
			reply, err := c.receive()
			o.note("LOCK", reply, err, start)
		})
	}
	for _, c := range all {
		if err := c.send("LOCK", c.key, "30s"); err != nil {
			t.Fatal(err)
		}
	}
	wg.Wait()
	t.Logf("%d answers within %v", len(all), time.Since(start))
	if n := len(o.refused); n > 0 {
		t.Errorf("%d of %d LOCKs got no token: %s", n, len(all), kinds(o.refused))
	}
}
