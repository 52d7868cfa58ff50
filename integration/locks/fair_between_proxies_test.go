package locks

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// TestProxiesTakeTurns: two clients of one proxy hand a lock to each other, so that its queue is
// empty after each grant. A client of another proxy gets its turn all the same, although that
// proxy is farther from the masters. A proxy pauses after 16 grants in a row, so the number of
// near grants between two far ones is the evidence; the median of these, because a proxy that gets
// no processor for a while misses a turn.
func TestProxiesTakeTurns(t *testing.T) {
	t.Parallel()
	c := lab.StartCluster(t, 5, "--master-timeout", "5s") // the machine may be busy
	relays, list := lab.StartRelays(t, c.Masters)
	for _, r := range relays {
		r.Slow(time.Millisecond)
	}
	two := lab.StartProxy(t, "--upstream", c.Upstream.Addr, "--masters", list, "--restart-guard", "off",
		"--master-timeout", "5s")
	two.WaitVoting(t)
	var near, far atomic.Int64
	var between []int64 // near grants from one far grant to the next
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for range 2 {
		wg.Go(func() { lockAndUnlock(t, c.Addr, stop, func() { near.Add(1) }) })
	}
	last := int64(0)
	wg.Go(func() {
		lockAndUnlock(t, two.Addr, stop, func() {
			between, last = append(between, near.Load()-last), near.Load()
			far.Add(1)
		})
	})
	lab.Poll(2*lab.Patience, func() bool { return far.Load() >= 20 })
	close(stop)
	wg.Wait()
	t.Logf("%d grants through the near proxy, %d through the far one", near.Load(), far.Load())
	if far.Load() < 20 {
		t.Fatalf("grants through the far proxy: got %d beside %d near ones, want 20", far.Load(), near.Load())
	}
	slices.Sort(between)
	if median := between[len(between)/2]; median > 25 {
		t.Errorf("near grants between two far ones: got a median of %d, want at most 25", median)
	}
	lab.WantNoStray(t, c.Masters, c.Proxy, two)
}

// lockAndUnlock locks, holds for 5ms and unlocks until stop is closed. It calls granted at each
// grant.
func lockAndUnlock(t *testing.T, addr string, stop <-chan struct{}, granted func()) {
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
		reply, err := c.Ask("LOCK", "job", "60s", "WAIT", "40s")
		token := lab.TokenOf(reply)
		if err != nil || token == "" {
			t.Errorf("LOCK: got %q, %v, want a token", reply, err)
			return
		}
		granted()
		lab.Pass(t, 5*time.Millisecond)
		if reply, err := c.Ask("UNLOCK", "job", token); err != nil || reply != ":1\r\n" {
			t.Errorf("UNLOCK: got %q, %v, want 1", reply, err)
			return
		}
	}
}
