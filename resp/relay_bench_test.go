package resp

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"runtime/metrics"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/redcon"
)

// benchNet is a network on which the relay is measured.
type benchNet struct {
	name   string
	listen func() (net.Listener, error)
	dial   func(net.Listener) (net.Conn, error)
}

var benchNets = []benchNet{
	{"sockets", func() (net.Listener, error) { return net.Listen("tcp", "127.0.0.1:0") },
		func(ln net.Listener) (net.Conn, error) { return net.Dial("tcp", ln.Addr().String()) }},
	{"memory", func() (net.Listener, error) { return newBenchListener(), nil },
		func(ln net.Listener) (net.Conn, error) { return ln.(*benchListener).dial() }},
}

// benchRequest is one request as a client library writes it.
func benchRequest(args ...string) []byte {
	b := fmt.Appendf(nil, "*%d\r\n", len(args))
	for _, arg := range args {
		b = fmt.Appendf(b, "$%d\r\n%s\r\n", len(arg), arg)
	}
	return b
}

// benchRequests are the requests that the benchmarks of the relay use.
func benchRequests() []struct {
	name string
	one  []byte
} {
	return []struct {
		name string
		one  []byte
	}{
		{"get", benchRequest("GET", "key:000000000001")},
		{"set=64B", benchRequest("SET", "key:000000000001", strings.Repeat("x", 64))},
		{"set=16KB", benchRequest("SET", "key:000000000001", strings.Repeat("x", 16<<10))},
		{"mset=20x64B", benchRequest(append([]string{"MSET"}, slices.Repeat([]string{strings.Repeat("x", 64)}, 40)...)...)},
	}
}

// BenchmarkRelay sends pipelines through a server to an upstream that answers at once. Neither the
// client nor the upstream here allocates, so the allocations are the relay's.
func BenchmarkRelay(b *testing.B) {
	get := "$64\r\n" + strings.Repeat("v", 64) + "\r\n"
	replies := map[string]string{"get": get, "set=64B": "+OK\r\n", "set=16KB": "+OK\r\n"}
	for _, on := range benchNets {
		for _, request := range benchRequests() {
			reply, known := replies[request.name]
			for _, pipeline := range []int{1, 16, 100} {
				if !known {
					continue
				}
				b.Run(fmt.Sprintf("%s/%s/pipeline=%d", on.name, request.name, pipeline), func(b *testing.B) {
					client := on.relay(b, len(request.one), reply)
					exchange(b, client, bytes.Repeat(request.one, pipeline), strings.Repeat(reply, pipeline), pipeline)
				})
			}
		}
	}
}

// BenchmarkOwn is lock commands alone: they never go to the upstream. A handler runs them on a
// goroutine, Begin on the loop.
func BenchmarkOwn(b *testing.B) {
	request, reply := benchRequest("LOCK", "job", "10s"), "$3\r\njob\r\n"
	begin := func(conn redcon.Conn, cmd redcon.Command, done func()) bool {
		conn.WriteBulk(cmd.Args[1])
		done()
		return true
	}
	for _, way := range []struct {
		name  string
		on    benchNet
		begin func(redcon.Conn, redcon.Command, func()) bool
	}{{"sockets/handler", benchNets[0], nil}, {"sockets/begin", benchNets[0], begin},
		{"memory/handler", benchNets[1], nil}} {
		for _, pipeline := range []int{1, 100} {
			b.Run(fmt.Sprintf("%s/pipeline=%d", way.name, pipeline), func(b *testing.B) {
				client := way.on.relay(b, 1, "+OK\r\n", func(o *Options) { o.Begin = way.begin })
				before := goroutinesMade()
				exchange(b, client, bytes.Repeat(request, pipeline), strings.Repeat(reply, pipeline), pipeline)
				b.ReportMetric(float64(goroutinesMade()-before)/float64(b.N*pipeline), "goroutines/request")
			})
		}
	}
}

// goroutinesMade is how many goroutines the process has ever made.
func goroutinesMade() uint64 {
	sample := []metrics.Sample{{Name: "/sched/goroutines-created:goroutines"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// exchange measures one pipeline and its replies.
func exchange(b *testing.B, client net.Conn, requests []byte, want string, pipeline int) {
	once := exchanger(b, client, requests, want)
	b.ReportAllocs()
	b.SetBytes(int64(len(requests) + len(want)))
	for b.Loop() {
		once()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(pipeline), "ns/request")
}

// exchanger returns a function that sends the requests once and reads the replies, after a first
// exchange. It does not allocate.
func exchanger(b testing.TB, client net.Conn, requests []byte, want string) (once func()) {
	b.Helper()
	got := make([]byte, len(want))
	begin, sent := make(chan struct{}), make(chan error, 1)
	b.Cleanup(func() { close(begin) })
	go func() { // writes the bytes that the connections cannot hold until they are read
		for range begin {
			_, err := client.Write(requests)
			sent <- err
		}
	}()
	once = func() {
		if len(requests) > 64<<10 {
			begin <- struct{}{}
		} else {
			_, err := client.Write(requests)
			sent <- err
		}
		if _, err := io.ReadFull(client, got); err != nil {
			b.Fatal(err)
		}
		if err := <-sent; err != nil {
			b.Fatal(err)
		}
	}
	if once(); string(got) != want {
		b.Fatalf("got %q", got)
	}
	return once
}

// TestRelayAllocatesNothing: not a byte for a command that passes through. Under the race detector
// pools forget a quarter of the values that they get, which costs less than one allocation for the
// two buffers of a command and its reply; AllocsPerRun rounds down.
func TestRelayAllocatesNothing(t *testing.T) {
	for _, on := range benchNets {
		t.Run(on.name, func(t *testing.T) {
			request, reply := benchRequest("GET", "key:000000000001"), "$5\r\nhello\r\n"
			once := exchanger(t, on.relay(t, len(request), reply), request, reply)
			if n := testing.AllocsPerRun(500, once); n > 0 {
				t.Errorf("%v allocations for a command", n)
			}
		})
	}
}

// relay starts a server before an upstream that gives reply to every size bytes, and returns a
// client's connection.
func (on benchNet) relay(b testing.TB, size int, reply string, change ...func(*Options)) net.Conn {
	b.Helper()
	upstream, err := on.listen()
	if err != nil {
		b.Fatal(err)
	}
	ln, err := on.listen()
	if err != nil {
		b.Fatal(err)
	}
	answered := make(chan struct{})
	go func() { defer close(answered); answerAll(upstream, size, reply) }()
	own := redcon.HandlerFunc(func(conn redcon.Conn, cmd redcon.Command) { conn.WriteBulk(cmd.Args[1]) })
	o := Options{Handler: own, Dial: func(context.Context) (net.Conn, error) { return on.dial(upstream) }}
	for _, f := range change {
		f(&o)
	}
	server := NewServer(o)
	served := make(chan struct{})
	go func() { defer close(served); server.Serve(ln) }()
	client, err := on.dial(ln)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		client.Close()
		upstream.Close()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		server.Shutdown(ctx)
		<-served
		<-answered
	})
	return client
}

// answerAll is an upstream for one connection at a time.
func answerAll(ln net.Listener, size int, reply string) {
	replies := []byte(strings.Repeat(reply, 1000))
	in := make([]byte, 64<<10)
	for {
		c, err := ln.Accept()
		if err != nil {
			return
		}
		for rest := 0; ; {
			n, err := c.Read(in)
			if err != nil {
				break
			}
			rest += n
			due := rest / size
			rest %= size
			for due > 0 {
				now := min(due, 1000)
				c.Write(replies[:now*len(reply)])
				due -= now
			}
		}
		c.Close()
	}
}
