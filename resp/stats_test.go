package resp

import (
	"strings"
	"testing"
	"time"
)

// TestStats: bytes and commands are counted once, while the connection lives and when it has
// ended.
func TestStats(t *testing.T) {
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
