package attacks

import (
	"crypto/rand"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// TestConnectionFloodLeavesNothing: connections that open and close as fast as they can, in every
// way, neither stop the lock commands of another client nor leave memory or connections.
func TestConnectionFloodLeavesNothing(t *testing.T) {
	c := lab.StartCluster(t, 3, "--master-timeout", "2s") // the flood takes processor time from the masters
	desk := lab.Dial(t, c.Addr)
	const flooders = 50
	stop := make(chan struct{})
	var flood sync.WaitGroup
	var opened atomic.Int64
	for i := range flooders {
		flood.Go(func() {
			for n := 0; !closed(stop); n++ {
				opened.Add(int64(floodOnce(c.Addr, i+n)))
			}
		})
	}
	pairs := 0
	for ended := time.After(lab.Long(time.Second, time.Minute)); !closed(ended); pairs++ {
		desk.Unlock("job", desk.Lock("job", "60s"))
		desk.WantDo("+PONG\r\n", "PING")
	}
	close(stop)
	flood.Wait()
	peak := c.Memory(t, "VmHWM")
	t.Logf("%d pairs of LOCK and UNLOCK beside %d connections; %d MB", pairs, opened.Load(), peak)
	if peak > lab.MemoryBound {
		t.Errorf("the proxy used up to %d MB, want at most %d", peak, lab.MemoryBound)
	}
	lab.WaitFor(t, "the end of all connections to the proxy but one", lab.Patience, func() bool {
		return desk.Counter("connected_clients") == 1
	})
	lab.WaitFor(t, "the end of their connections to the upstream", lab.Patience, func() bool {
		return strings.Count(c.Upstream.Do(t, "CLIENT", "LIST"), " laddr=") <= 3
	})
}

// closed reports whether a channel is closed or has a value.
func closed[T any](ch <-chan T) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

// floodOnce opens twenty connections, leaves each in another state and closes them. It returns how
// many the proxy accepted.
func floodOnce(addr string, first int) (opened int) {
	var all []*lab.Conn
	for range 20 {
		if host, err := lab.Connect(addr); err == nil {
			all = append(all, host)
		}
	}
	for i, host := range all {
		switch (first + i) % 5 {
		case 0: // send no command
		case 1:
			host.Ask("PING")
		case 2:
			host.Put(lab.Encode("LOCK", rand.Text(), "100"))
		case 3:
			host.Put("*2\r\n$4\r\nECH")
		case 4:
			if token, _, _ := host.TryLock(rand.Text(), "1s"); token == "" {
				host.Put("\x00")
			}
		}
		if i%2 == 0 {
			host.Reset()
		} else {
			host.Close()
		}
	}
	return len(all)
}
