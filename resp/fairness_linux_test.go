package resp

import (
	"net"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lockproxy/resp/internal/netpoll"
)

// TestFloodsDoNotKeepOthersWaiting: two clients send transactions as fast as they can and read no
// reply. A third is served beside them, while the upstream leaves the floods unread, and while it
// reads them.
func TestFloodsDoNotKeepOthersWaiting(t *testing.T) {
	ln, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	t.Cleanup(wg.Wait)
	t.Cleanup(func() { ln.Close() })
	var flooded atomic.Int64 // bytes of floods that reached the upstream
	var r *relay
	// not yet waiting in a socket on the way to the upstream
	received := func() int64 { return int64(r.server.Stats().Received) }
	arrived := make(chan int64, 1)
	r = startRelay(t, "unix", ln.Addr().String(), nil)
	open := make(chan struct{}) // floods are taken
	wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer c.Close()
				readFloods(c, open, &flooded, func() { arrived <- received() })
			})
		}
	})
	const flooders, rounds = 2, 101
	flood := []byte(strings.Repeat("MULTI\r\n"+strings.Repeat("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n",
		20)+"EXEC\r\n", 2000))
	for range flooders {
		c := r.dial()
		c.SetDeadline(time.Time{})
		wg.Go(func() {
			for err := error(nil); err == nil; {
				_, err = c.Write(flood)
			}
		})
		t.Cleanup(func() { c.Close() })
	}
	c := r.dial()
	ping := func() (before int64) {
		start := received()
		c.send("PING\r\n")
		before = within(t, "PING", arrived) - start
		c.expect("+PONG\r\n")
		return before
	}
	for alone := 0; alone < rounds; { // until the floods are stuck
		if alone++; ping() > int64(len("PING\r\n")) || flooded.Load() < flooders {
			alone = 0
		}
	}
	close(open)
	for range rounds {
		start := flooded.Load()
		eventually(t, "the floods go on", func() bool { return flooded.Load() != start })
		ping()
	}
}

// readFloods reads c as an upstream that answers PING alone, after pinged. Floods are counted, and
// read once open is closed.
func readFloods(c net.Conn, open <-chan struct{}, flooded *atomic.Int64, pinged func()) {
	for b := make([]byte, netpoll.ChunkSize); ; {
		n, err := c.Read(b)
		if err != nil {
			return
		}
		if string(b[:n]) != "PING\r\n" {
			flooded.Add(int64(n))
			<-open
			continue
		}
		pinged()
		c.Write([]byte("+PONG\r\n"))
	}
}
