package locks

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// TestFairBetweenProxies: two clients that hand a lock to each other within one proxy, so that its
// line is empty after each grant, leave their turn to a client of another proxy, although that one
// has a longer way to the masters.
func TestFairBetweenProxies(t *testing.T) {
	t.Parallel()
	c := lab.StartCluster(t, 5, "--master-timeout", "5s") // the machine may be busy
	relays, list := lab.StartRelays(t, c.Masters)
	for _, r := range relays {
		r.Slow(time.Millisecond)
	}
	two := lab.StartProxy(t, "--upstream", c.Upstream.Addr, "--masters", list, "--restart-guard", "off", "--master-timeout", "5s")
	two.WaitVoting(t)
	var near, far atomic.Int64
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for range 2 {
		wg.Go(func() { lockAndUnlock(t, c.Addr, &near, stop) })
	}
	wg.Go(func() { lockAndUnlock(t, two.Addr, &far, stop) })
	lab.Pass(t, 4*time.Second)
	close(stop)
	wg.Wait()
	t.Logf("%d grants to the two of one proxy, %d to the one of the other", near.Load(), far.Load())
	if far.Load()*25 < near.Load() {
		t.Errorf("%d grants to one proxy, %d to the other: after 16 in a row it should have had its turn", near.Load(), far.Load())
	}
	lab.WantNoStray(t, c.Masters, c.Proxy, two)
}

// lockAndUnlock locks, holds for 5ms and unlocks until stop, and counts how often.
func lockAndUnlock(t *testing.T, addr string, count *atomic.Int64, stop <-chan struct{}) {
	c, err := lab.Connect(addr)
	if err != nil {
		t.Error(err)
		return
	}
	defer c.Close()
	for {
		select {
		case <-stop:
			return
		default:
		}
		reply, err := c.Ask("LOCK", "job", "60s", "WAIT", "20s")
		token := lab.TokenOf(reply)
		if err != nil || token == "" {
			t.Errorf("LOCK: %q, %v", reply, err)
			return
		}
		count.Add(1)
		<-time.After(5 * time.Millisecond)
		if reply, err := c.Ask("UNLOCK", "job", token); err != nil || reply != ":1\r\n" {
			t.Errorf("UNLOCK: %q, %v", reply, err)
			return
		}
	}
}
