package resp

import (
	"context"
	"math/rand/v2"
	"net"
	"runtime"
	"runtime/metrics"
	"strings"
	"sync"
	"testing"
	"time"

	"lockproxy/resp/internal/netpoll"
)

// unwatched is a listener whose connections no loop can watch, like those of TLS.
type unwatched struct{ net.Listener }

func (l unwatched) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return unwatchedConn{c}, nil
}

type unwatchedConn struct{ net.Conn }

// CloseWrite ends the output alone, like that of TLS.
func (c unwatchedConn) CloseWrite() error { return netpoll.CloseWrite(c.Conn) }

// liveHeap returns how many bytes of the heap and of stacks are in use.
func liveHeap() int64 {
	for range 3 { // pools give up their memory in the second collection
		runtime.GC()
	}
	// As the last collection found it: goroutines that go on make garbage at once.
	used := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"}}
	metrics.Read(used)
	return int64(used[0].Value.Uint64() + used[1].Value.Uint64())
}

// moved returns how many bytes the server has read from its clients and written to them, and
// whether a write to each of them is under way.
func (r *relay) moved() (read, written uint64, writing bool) {
	writing = true
	for _, s := range r.server.all() {
		writing = writing && s.progress.writing.Load()
		read += s.progress.read.Load()
		written += s.progress.written.Load()
	}
	return read, written, writing
}

// awaitStandstill waits until the server has read size bytes and its writes make no progress: the
// way to each client is full.
func (r *relay) awaitStandstill(size int) {
	var last uint64
	eventually(r.t, "a standstill", func() bool {
		read, written, writing := r.moved()
		stands := read == uint64(size) && writing && written == last
		last = written
		time.Sleep(10 * time.Millisecond) // until the next look
		return stands
	})
}

// kindsOfRequests are requests of all kinds that may change a connection.
var kindsOfRequests = []string{
	"PING", "AUTH x y", "MULTI", "EXEC", "HELLO 3 AUTH x y", "SUBSCRIBE a", "RESET", "CLIENT REPLY ON",
	"CLIENT REPLY SKIP", "MONITOR",
	blockingPop, blockingRead, " ", "EXEC\tx", // with a tab: inline
}

// Each takes Redis over a millisecond.
const (
	blockingPop  = "BLPOP q 0.001"
	blockingRead = "XREAD BLOCK 1 STREAMS s $"
)

// manyRequests draws requests of the given kinds, after one whose reply fills the way back: it is
// larger than the buffers of the sockets.
func manyRequests(random *rand.Rand, kinds []string) string {
	count := 16_500
	if kinds[0] == blockingPop || kinds[0] == blockingRead {
		count = 4000
	}
	var b strings.Builder
	b.WriteString("*3\r\n$4\r\nEVAL\r\n$32\r\nreturn string.rep('x', 16777216)\r\n$1\r\n0\r\n")
	for range count {
		line := kinds[random.IntN(len(kinds))]
		if argv := strings.Fields(line); len(argv) > 0 && !strings.Contains(line, "\t") {
			b.Write(appendCommand(nil, asBytes(argv), len(argv)))
			continue
		}
		b.WriteString(line + "\r\n")
	}
	return b.String()
}

// serveOver starts a relay on a listener that wrap has made. stop closes the connections, however
// many replies their clients did not read.
func serveOver(t *testing.T, network, upstream string, wrap func(net.Listener) net.Listener) (r *relay, stop func()) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r = &relay{t: t, addr: ln.Addr().String(), server: NewServer(Options{UpstreamName: upstream,
		Dial: func(ctx context.Context) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, upstream)
		}})}
	var serving sync.WaitGroup
	serving.Go(func() { r.server.Serve(wrap(ln)) })
	return r, func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		r.server.Shutdown(ctx)
		serving.Wait()
	}
}

// TestClientThatReadsNothing: a client that sends requests and reads no reply costs the same few
// buffers, for all requests that may change its connection, and however many there are.
func TestClientThatReadsNothing(t *testing.T) {
	const bound = 512 << 10 // the documents say 1 MB
	network, addr := startRedis(t, "--maxmemory-clients", "2gb")
	random := rand.New(rand.NewPCG(1, 2))
	each := []string{manyRequests(random, kindsOfRequests)}
	mixed := each[:1]
	for _, kind := range kindsOfRequests {
		each = append(each, manyRequests(random, []string{kind}))
	}
	for name, row := range map[string]struct {
		wrap func(net.Listener) net.Listener
		sent []string // by a client each
	}{
		"a loop watches": {func(ln net.Listener) net.Listener { return ln }, each},
		"on a goroutine": {func(ln net.Listener) net.Listener { return unwatched{ln} }, mixed}, // the code is the same
	} {
		t.Run(name, func(t *testing.T) {
			size := len(strings.Join(row.sent, ""))
			var writers sync.WaitGroup
			r, stop := serveOver(t, network, addr, row.wrap)
			defer writers.Wait()
			defer stop() // which ends their connections
			before := liveHeap()
			for _, text := range row.sent {
				c := r.dial()
				c.Conn.(*net.TCPConn).SetReadBuffer(4096)
				c.SetDeadline(time.Time{})
				writers.Go(func() { c.Write([]byte(text)) })
			}
			r.awaitStandstill(size)
			got := (liveHeap() - before) / int64(len(row.sent))
			t.Logf("%d KB for each client", got>>10)
			if got >= bound {
				t.Errorf("%d KB for each client, want under %d", got>>10, bound>>10)
			}
		})
	}
}
