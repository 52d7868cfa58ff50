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

// TestWaitsLeaveNothing: waits that end without a grant leave nothing behind: no memory, no place
// in the line, no subscription at a master (B21, B35).
func TestWaitsLeaveNothing(t *testing.T) {
	c := lab.StartCluster(t, 5, "--master-timeout", "2s") // the machine may be busy
	o := &lab.Operators{T: t, Addr: lab.FreeAddr(t)}
	p := lab.StartProxy(t, append(c.Flags, "--admin-listen", o.Addr)...)
	p.WaitVoting(t)
	holder, desk := lab.Dial(t, c.Addr), lab.Dial(t, p.Addr)
	const hosts, keys = 40, 100
	each := 125
	if os.Getenv("INTEGRATION_LONG") != "" {
		each = 2500
	}
	for i := range keys {
		holder.LockSession(fmt.Sprintf("job-%d", i), "60s") // held however long it takes
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
		desk.WaitWaiting(0)
	}
	wait()
	before, start := o.LiveHeap(), time.Now()
	wait()
	wait()
	after := o.LiveHeap()
	t.Logf("%d waits in %v; live heap %.1f MB, then %.1f MB", 2*hosts*each, time.Since(start), before, after)
	if after > before+5 {
		t.Errorf("the live heap rose from %.1f to %.1f MB in %d waits", before, after, 2*hosts*each)
	}
	for _, s := range c.Masters {
		lab.WaitFor(t, "no subscription", lab.Patience, func() bool {
			return !strings.Contains(s.Do(t, "PUBSUB", "CHANNELS", "lockproxy:*"), "lockproxy:")
		})
	}
	if n := desk.Counter("session_locks"); n != 0 {
		t.Errorf("%d session locks", n)
	}
}
