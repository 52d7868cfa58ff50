package locks

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// TestWaitsLeaveNothing: waits that end without a grant leave nothing behind: no memory, no place in the line, no subscription at a master (B21, B35).
func TestWaitsLeaveNothing(t *testing.T) {
	p := lab.StartTwoProxies(t, "--master-timeout", "2s") // the machine may be busy
	const hosts, keys = 40, 100
	each := 250
	if os.Getenv("INTEGRATION_LONG") != "" {
		each = 2500
	}
	for i := range keys {
		p.Far.Lock(fmt.Sprintf("job-%d", i), "60s")
	}
	wait := func() {
		var wg sync.WaitGroup
		for i := range hosts {
			wg.Go(func() {
				c, err := lab.Connect(p.Addr)
				if err != nil {
					t.Error(err)
					return
				}
				defer c.Close()
				for n := range each {
					key := fmt.Sprintf("job-%d", (i*7+n)%keys)
					if n%10 == 9 { // it leaves
						_ = c.Put(lab.Encode("LOCK", key, "60s", "WAIT", "0", "SESSION"))
						c.Close()
						if c, err = lab.Connect(p.Addr); err != nil {
							t.Error(err)
							return
						}
					} else if reply, err := c.Ask("LOCK", key, "60s", "WAIT", "1ms"); err != nil || reply != lab.Null2 {
						t.Errorf("LOCK WAIT: %q, %v", reply, err)
						return
					}
				}
			})
		}
		wg.Wait()
		p.Near.WaitWaiting(0)
	}
	wait()
	before, start := p.Memory(t, "VmRSS"), time.Now()
	wait()
	wait()
	after := p.Memory(t, "VmRSS")
	t.Logf("%d waits in %v; memory %d MB, then %d MB", 2*hosts*each, time.Since(start), before, after)
	if after > before+10 && !lab.Race {
		t.Errorf("memory rose from %d to %d MB in %d waits", before, after, 2*hosts*each)
	}
	for _, s := range p.Masters {
		lab.WaitFor(t, "no subscription", lab.Patience, func() bool {
			return !strings.Contains(s.Do(t, "PUBSUB", "CHANNELS", "lockproxy:*"), "lockproxy:")
		})
	}
	if n := p.Near.Counter("session_locks"); n != 0 {
		t.Errorf("%d session locks", n)
	}
}
