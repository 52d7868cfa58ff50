package resp

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// TestBytesAndCommandsAreCountedOnce: bytes and commands are counted once, while the connection
// lives and when it has ended.
func TestBytesAndCommandsAreCountedOnce(t *testing.T) {
	network, addr := startRedis(t)
	r := startRelay(t, network, addr, func(o *Options) { o.MaxClients = 2 })
	idle, c := r.dial(), r.dial()
	value := strings.Repeat("v", 70_000)
	sent := "*2\r\n$4\r\nECHO\r\n$70000\r\n" + value + "\r\n"
	c.send("PING\r\n")
	c.expect("+PONG\r\n")
	c.send(sent)
	c.expect("$70000\r\n" + value + "\r\n")
	full := r.dial()
	full.expect("-ERR max number of clients reached\r\n")
	want := Stats{Clients: 2, Upstreams: 1, Accepted: 2, Refused: 1, Received: uint64(6 + len(sent)),
		Sent: uint64(7 + 10 + 70_000), Commands: 2}
	until(t, want, r.server.Stats)
	c.Close()
	want.Clients, want.Upstreams = 1, 0
	until(t, want, r.server.Stats)
	idle.send("BLPOP none 0\r\n")
	want.Upstreams, want.Commands, want.Unanswered, want.Received = 1, 3, 1, want.Received+14
	until(t, want, r.server.Stats)

	// bytes that are read ahead while a command runs count, too
	own, behind := "LOCK wait\r\n", strings.Repeat("PING\r\n", 5000)
	before := r.server.Stats().Received
	c = r.dial()
	c.send(own)
	<-r.handler.enter
	c.send(behind)
	<-time.After(4 * aheadDelay)
	close(r.handler.leave)
	c.expect("$8\r\nown:wait\r\n" + strings.Repeat("+PONG\r\n", 5000))
	if got, sent := r.server.Stats().Received-before, uint64(len(own)+len(behind)); got != sent {
		t.Errorf("%d bytes received, of %d", got, sent)
	}
}

func until(t *testing.T, want Stats, now func() Stats) {
	t.Helper()
	for deadline := time.Now().Add(patience); now() != want; {
		if time.Now().After(deadline) {
			t.Fatalf("got  %+v\nwant %+v", now(), want)
		}
		<-time.After(5 * time.Millisecond)
	}
}

// TestMarkersAreCountedAsErrors: the upstream's errorstat_ERR grows by the number of markers, so
// that alerts can subtract them.
func TestMarkersAreCountedAsErrors(t *testing.T) {
	network, addr := startRedis(t)
	r := startRelay(t, network, addr, nil)
	c := r.dial()
	const own = "$5\r\nown:a\r\n"
	sum := uint64(0)
	for _, step := range []struct {
		name         string
		send, expect string
		least, most  uint64 // markers
	}{
		{"no lock command", "PING\r\n", "+PONG\r\n", 0, 0},
		{"the first one", "LOCK a 1\r\n", own, 3, 3},
		{"nothing has changed", "LOCK a 1\r\n", own, 0, 0},
		{"a reply is missing, or has just come", "PING\r\nLOCK a 1\r\n", "+PONG\r\n" + own, 0, 1},
		{"after SUBSCRIBE", "SUBSCRIBE a\r\nUNSUBSCRIBE a\r\nLOCK a 1\r\n",
			"*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n*3\r\n$11\r\nunsubscribe\r\n$1\r\na\r\n:0\r\n" + own, 3, 3},
	} {
		c.send(step.send)
		c.expect(step.expect)
		before := sum
		sum = r.server.Stats().Markers
		if got := sum - before; got < step.least || got > step.most {
			t.Errorf("%s: got %d markers, want %d to %d", step.name, got, step.least, step.most)
		}
		if got := errorsOf(t, network, addr); got != sum {
			t.Errorf("%s: got errorstat_ERR %d, want %d as markers", step.name, got, sum)
		}
	}
}

// errorsOf returns how many errors with the code ERR a Redis has answered.
func errorsOf(t *testing.T, network, addr string) (n uint64) {
	t.Helper()
	c, err := net.Dial(network, addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(patience))
	io.WriteString(c, "INFO errorstats\r\nQUIT\r\n")
	text, err := io.ReadAll(c)
	if err != nil {
		t.Fatal(err)
	}
	if _, count, ok := strings.Cut(string(text), "errorstat_ERR:count="); ok {
		fmt.Sscan(count, &n)
	}
	return n
}
