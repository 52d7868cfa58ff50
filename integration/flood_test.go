package integration

import (
	"crypto/rand"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestConnectionFlood: connections that open and close as fast as they can, in every way, do not get in the way of others and leave nothing.
func TestConnectionFlood(t *testing.T) {
	c := startCluster(t, 3, "--master-timeout", "2s") // the masters share the processor with all this
	desk := dial(t, c.addr)
	turn := func() time.Duration {
		start := time.Now()
		desk.unlock("job", desk.lock("job", "60s"))
		desk.wantDo("+PONG\r\n", "PING")
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
				var all []*conn
				for range 20 {
					if host, err := connect(c.addr); err == nil {
						all = append(all, host)
					}
				}
				for j, host := range all {
					switch (i + j + n) % 5 {
					case 0: // says nothing
					case 1:
						host.do("PING")
					case 2:
						host.write(encode("LOCK", rand.Text(), "100"))
					case 3:
						host.write("*2\r\n$4\r\nECH")
					case 4:
						if token, _, _ := host.tryLock(rand.Text(), "1s"); token == "" {
							host.write("\x00")
						}
					}
					if j%2 == 0 {
						host.reset()
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
	for start := time.Now(); time.Since(start) < long(3*time.Second, time.Minute); {
		turns = append(turns, turn())
	}
	close(stop)
	wg.Wait()
	slices.Sort(turns)
	t.Logf("%d connections came and went; of %d turns of another the median took %v, the 99th percentile %v, at most %v; %d MB",
		count, len(turns), turns[len(turns)/2], turns[len(turns)*99/100], turns[len(turns)-1], c.memory(t, "VmHWM"))
	if peak := c.memory(t, "VmHWM"); peak > memoryBound {
		t.Errorf("the proxy used up to %d MB", peak)
	}
	waitFor(t, "all gone", patience, func() bool { return desk.counter("connected_clients") == 1 })
	waitFor(t, "their connections to the upstream gone", patience, func() bool {
		return strings.Count(c.upstream.do(t, "CLIENT", "LIST"), " laddr=") <= 3
	})
}

// TestFewFiles: where the system has no room for more connections the proxy waits, without spinning, serves those it has, and goes on.
func TestFewFiles(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3)
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	args := append([]string{"-c", `ulimit -n 64; exec "$0" "$@"`, path, "--log-format", "json", "--drain-timeout", "3s", "--listen", "127.0.0.1:0"}, c.flags...)
	p := &proxy{process: launch(t, "lockproxy with few files", tool(t, "sh"), args...)}
	waitFor(t, "lockproxy ready", 2*patience, func() bool { p.addr = p.readyAddr(); return p.addr != "" || !p.running() })
	t.Cleanup(func() { p.checkEnd(t) })
	p.waitVoting(t)
	desk := dial(t, p.addr)
	desk.wantDo("+PONG\r\n", "PING")
	var all []*client
	for range 100 {
		host := dial(t, p.addr) // the system accepts for the proxy
		host.send(encode("PING"))
		all = append(all, host)
	}
	waitFor(t, "word of it in the log", patience, func() bool { return strings.Contains(p.log.String(), "cannot accept a connection") })
	before := p.cpu(t)
	for range 40 {
		desk.unlock("job", desk.lock("job", "60s"))
		desk.wantDo("+PONG\r\n", "PING")
		pauseBetween(t, 50*time.Millisecond)
	}
	if used := p.cpu(t) - before; used > time.Second*slack/2 {
		t.Errorf("%v of processor time within two seconds", used)
	}
	if n := strings.Count(p.log.String(), "cannot accept a connection"); n > 40 {
		t.Errorf("%d lines in the log about it", n)
	}
	for _, host := range all {
		host.Close()
	}
	start := time.Now()
	waitFor(t, "room for a new connection", patience, func() bool {
		host, err := connect(p.addr)
		if err != nil {
			return false
		}
		defer host.Close()
		host.timeout = 2 * time.Second
		reply, _ := host.do("PING")
		return reply == "+PONG\r\n"
	})
	t.Logf("served again %v after the others left", time.Since(start))
}
