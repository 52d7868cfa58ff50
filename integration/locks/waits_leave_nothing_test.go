package locks

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"lockproxy/integration/lab"
)

// TestWaitsLeaveNothing: waits that end without a grant leave no memory, no place in a queue and
// no subscription at a master (B21, B35).
func TestWaitsLeaveNothing(t *testing.T) {
	c := lab.StartCluster(t, 3, "--master-timeout", "2s") // the machine may be busy
	o := &lab.Operators{T: t, Addr: lab.FreeAddr(t)}
	p := lab.StartProxy(t, append(c.Flags, "--admin-listen", o.Addr)...)
	p.WaitVoting(t)
	holder, desk := lab.Dial(t, c.Addr), lab.Dial(t, p.Addr)
	const hosts, keys = 40, 100
	each := lab.Long(100, 2500)
	for i := range keys {
		holder.LockSession(fmt.Sprintf("job-%d", i), "60s") // held however long the waits take
	}
	wait := func(each int) {
		var wg sync.WaitGroup
		for i := range hosts {
			wg.Go(func() { waitInVain(t, p.Addr, each, func(n int) string { return fmt.Sprintf("job-%d", (i*7+n)%keys) }) })
		}
		wg.Wait()
		desk.WaitWaiting(0)
	}
	wait(each / 5) // pools and connections then have their size
	before := o.LiveHeap()
	wait(2 * each)
	after := before
	if !lab.Poll(lab.Patience, func() bool { after = o.LiveHeap(); return after <= before+5 }) {
		t.Errorf("live heap after %d waits: got %.1f MB, want %.1f MB as before, and 5 at most", 2*hosts*each, after, before)
	}
	for _, s := range c.Masters {
		lab.WaitFor(t, "the end of all subscriptions", lab.Patience, func() bool {
			return !strings.Contains(s.Do(t, "PUBSUB", "CHANNELS", "lockproxy:*"), "lockproxy:")
		})
	}
	if n := desk.Counter("session_locks"); n != 0 {
		t.Errorf("session locks: got %d, want none", n)
	}
}

// waitInVain waits n times for keys that others hold. Most waits time out; every tenth ends
// because the client leaves.
func waitInVain(t *testing.T, addr string, n int, key func(n int) string) {
	c, err := lab.Connect(addr)
	if err != nil {
		t.Error(err)
		return
	}
	defer func() { c.Close() }()
	for i := range n {
		if i%10 < 9 {
			reply, err := c.Ask("LOCK", key(i), "60s", "WAIT", "1ms")
			busy := strings.HasPrefix(reply, "-TRYAGAIN the masters are busy: ") // it was not sent in time
			if err != nil || reply != lab.Null2 && !busy {
				t.Errorf("LOCK WAIT: got %q, %v, want null", reply, err)
				return
			}
			continue
		}
		_ = c.Put(lab.Encode("LOCK", key(i), "60s", "WAIT", "0", "SESSION"))
		c.Close()
		next, err := lab.Connect(addr)
		if err != nil {
			t.Error(err)
			return
		}
		c = next
	}
}
