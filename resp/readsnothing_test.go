package resp

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// unwatched is a listener whose connections no loop can watch, like those of TLS.
type unwatched struct{ net.Listener }

func (l unwatched) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return struct{ net.Conn }{c}, nil
}

// liveHeap returns how many bytes of the heap and of stacks are in use.
func liveHeap() int64 {
	for range 3 { // pools give up their memory in the second collection
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

// bytesRead returns how many bytes the server has read from its clients.
func (r *relay) bytesRead() (sum uint64) {
	for _, s := range r.server.all() {
		sum += s.progress.read.Load()
	}
	return sum
}

// TestClientThatReadsNothing: a client that sends requests and reads no reply costs the same few
// buffers, whatever the requests may change about its connection and however many there are.
func TestClientThatReadsNothing(t *testing.T) {
	const clients, count, bound = 1, 16_500, 512 << 10 // the documents say 1 MB
	network, addr := startRedis(t, "--maxmemory-clients", "2gb")
	kinds := []string{
		"PING", "AUTH x y", "MULTI", "EXEC", "HELLO 3 AUTH x y", "SUBSCRIBE a", "RESET", "CLIENT REPLY ON", "CLIENT REPLY SKIP", "MONITOR",
		"BLPOP q 0.001", "XREAD BLOCK 1 STREAMS s $", " ", "EXEC\tx", // with a tab: inline
	}
	random := rand.New(rand.NewPCG(1, 2))
	requests := func(of []string) string {
		var b strings.Builder
		b.WriteString(strings.Repeat(strings.Repeat("u", 128)+" "+strings.Repeat("a", 128)+"\r\n", 16_000)) // the errors block the way back
		for range count {
			line := of[random.IntN(len(of))]
			if argv := strings.Fields(line); len(argv) > 0 && !strings.Contains(line, "\t") {
				b.Write(appendCommand(nil, asBytes(argv), len(argv)))
				continue
			}
			b.WriteString(line + "\r\n")
		}
		return b.String()
	}
	sent := map[string]string{"all": requests(kinds)}
	for _, kind := range kinds {
		sent[kind] = requests([]string{kind})
	}
	for name, wrap := range map[string]func(net.Listener) net.Listener{
		"a loop watches": func(ln net.Listener) net.Listener { return ln },
		"on a goroutine": func(ln net.Listener) net.Listener { return unwatched{ln} },
	} {
		t.Run(name, func(t *testing.T) {
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			r := &relay{t: t, addr: ln.Addr().String(), server: NewServer(Options{UpstreamName: addr, Dial: func(ctx context.Context) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, network, addr)
			}})}
			var all sync.WaitGroup
			defer all.Wait()
			all.Go(func() { r.server.Serve(wrap(ln)) })
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			defer r.server.Shutdown(ctx)

			before, size := liveHeap(), 0
			for _, text := range sent {
				for range clients {
					size += len(text)
					c := r.dial()
					c.Conn.(*net.TCPConn).SetReadBuffer(4096)
					c.SetDeadline(time.Now().Add(time.Minute))
					all.Go(func() {
						if _, err := c.Write([]byte(text)); errors.Is(err, os.ErrDeadlineExceeded) {
							t.Error("the connection was not closed")
						}
					})
				}
			}
			for deadline := time.Now().Add(time.Minute); r.bytesRead() < uint64(size); time.Sleep(10 * time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatalf("%d bytes of %d were read", r.bytesRead(), size)
				}
			}
			each := (liveHeap() - before) / int64(clients*len(sent))
			t.Logf("%d KB for each client", each>>10)
			if each >= bound {
				t.Errorf("%d KB for each client, want under %d", each>>10, bound>>10)
			}
		})
	}
}
