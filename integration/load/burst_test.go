package load

import (
	"sync"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// defaults restores the program's own settings, which lab changes for busy machines. Much load on
// the proxy must not require these changes.
var defaults = []string{"--master-timeout", "50ms"}

// TestSimultaneousLocksAreAllGranted: thousands of clients send a LOCK at the same instant, for
// instance after the restart of a proxy, and all get a token.
func TestSimultaneousLocksAreAllGranted(t *testing.T) {
	l := lab.Start(t, lab.Config{Masters: 5, Plain: true, Flags: defaults})
	all := gather(t, l.Proxies[0], "job", lab.Long(2000, 8000))
	o := outcome{machine: watchMachine(t, l.Proxies[0], l.Masters)}
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
	if list := o.unexcused(t, o.refused); len(list) > 0 {
		t.Errorf("got no token for %d of %d LOCKs, want one for each: %s", len(list), len(all), kinds(list))
	}
}
