package attacks

import (
	"crypto/rand"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// TestConnectionFlood: connections that open and close as fast as they can, in every way, do not
// get in the way of others and leave nothing.
func TestConnectionFlood(t *testing.T) {
	c := lab.StartCluster(t, 3, "--master-timeout", "2s") // the masters share the processor with all this
	desk := lab.Dial(t, c.Addr)
	turn := func() time.Duration {
		start := time.Now()
		desk.Unlock("job", desk.Lock("job", "60s"))
		desk.WantDo("+PONG\r\n", "PING")
		return time.Since(start)
	}
	for range 50 {
		turn()
	}
	const flooders = 50 // times 20 connections at once
	stop := make(chan struct{})
	var wg sync.WaitGroup
	var mu sync.Mutex
	count := 0
	for i := range flooders {
		wg.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				var all []*lab.Conn
				for range 20 {
					if host, err := lab.Connect(c.Addr); err == nil {
						all = append(all, host)
					}
				}
				for j, host := range all {
					switch (i + j + n) % 5 {
					case 0: // says nothing
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
					if j%2 == 0 {
						host.Reset()
					} else {
						host.Close()
					}
				}
				mu.Lock()
				count += len(all)
				mu.Unlock()
			}
		})
	}
	var turns []time.Duration
	for start := time.Now(); time.Since(start) < lab.Long(3*time.Second, time.Minute); {
		turns = append(turns, turn())
	}
	close(stop)
	wg.Wait()
	slices.Sort(turns)
	t.Logf("%d connections came and went; of %d turns of another the median took %v, the 99th percentile %v, at most %v; %d MB",
		count, len(turns), turns[len(turns)/2], turns[len(turns)*99/100], turns[len(turns)-1], c.Memory(t, "VmHWM"))
	if peak := c.Memory(t, "VmHWM"); peak > lab.MemoryBound {
		t.Errorf("the proxy used up to %d MB", peak)
	}
	lab.WaitFor(t, "all gone", lab.Patience, func() bool { return desk.Counter("connected_clients") == 1 })
	lab.WaitFor(t, "their connections to the upstream gone", lab.Patience, func() bool {
		return strings.Count(c.Upstream.Do(t, "CLIENT", "LIST"), " laddr=") <= 3
	})
}
