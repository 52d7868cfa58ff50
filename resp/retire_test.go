package resp

import (
	"context"
	"net"
	"runtime"
	"slices"
	"testing"
)

// TestRetireCutsOffNoReply: connections with the old upstream end when that cuts off no reply, the
// rest when ctx ends; others go on.
func TestRetireCutsOffNoReply(t *testing.T) {
	network, addr := startRedis(t)
	r := startRelay(t, network, addr, nil)
	idle, unused, blocked, subscribed, inside, ours := r.dial(), r.dial(), r.dial(), r.dial(), r.dial(), r.dial()
	for _, c := range []*client{idle, inside, ours} {
		c.send("PING\r\n")
		c.expect("+PONG\r\n")
	}
	blocked.send("CLIENT NO-EVICT off\r\nBLPOP q 0\r\n")
	blocked.expect("+OK\r\n")
	subscribed.send("SUBSCRIBE c\r\n")
	subscribed.expect("*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n")
	inside.send("MULTI\r\nSET a 1\r\n")
	inside.expect("+OK\r\n+QUEUED\r\n")
	ours.send("LOCK wait\r\n")
	within(t, "LOCK", r.handler.enter)
	ended := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer close(ended)
		r.server.Retire(ctx)
	}()
	idle.expectEOF()
	subscribed.expectEOF()
	later := r.dial() // dials after the change
	later.send("PING\r\n")
	later.expect("+PONG\r\n")
	inside.send("GET a\r\nEXEC\r\n")
	inside.expect("+QUEUED\r\n*2\r\n+OK\r\n$1\r\n1\r\n")
	inside.expectEOF()
	r.handler.leave <- struct{}{}
	ours.expect("$8\r\nown:wait\r\n")
	ours.expectEOF()
	select {
	case <-ended:
		t.Fatal("Retire returned while a client is blocked")
	default:
	}
	cancel()
	if _, err := blocked.r.ReadByte(); err == nil {
		t.Error("the blocked client was not cut off")
	}
	within(t, "end of Retire", ended)
	for _, c := range []*client{unused, later} {
		c.send("PING\r\n")
		c.expect("+PONG\r\n")
	}
	r.server.Retire(t.Context())
	unused.expectEOF()
	later.expectEOF()
}

// TestRetireBusy: a client that asks on as soon as it is answered is closed between two requests,
// and requests that were sent together are answered together.
func TestRetireBusy(t *testing.T) {
	network, addr := startRedis(t)
	r := startRelay(t, network, addr, nil)
	busy, batch := r.dial(), r.dial()
	busy.send("BLPOP q 0.2\r\n")
	batch.send("PING\r\n")
	batch.expect("+PONG\r\n")
	batch.send("LOCK wait\r\nPING\r\nLOCK a\r\nPING\r\n")
	within(t, "LOCK", r.handler.enter)
	eventually(t, "both connections to the upstream", func() bool { return r.server.Stats().Upstreams == 2 })
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r.server.Retire(t.Context())
	}()
	waitDraining(t, r.server)
	for rounds, end := 0, false; !end; rounds++ {
		if rounds == 4 {
			t.Fatal("a busy client is never closed")
		}
		busy.expect("*-1\r\n")
		busy.send("BLPOP q 0.2\r\n") // at once
		_, err := busy.r.Peek(1)
		end = err != nil
	}
	r.handler.leave <- struct{}{}
	batch.expect("$8\r\nown:wait\r\n+PONG\r\n$5\r\nown:a\r\n+PONG\r\n")
	batch.expectEOF()
	within(t, "end of Retire", ended)
}

// TestRetireMeetsDial: a connection whose dial began before the change and ended after it is
// retired, too.
func TestRetireMeetsDial(t *testing.T) {
	network, addr := startRedis(t)
	dialling, goOn := make(chan struct{}), make(chan struct{})
	r := startRelay(t, network, addr, func(o *Options) {
		dial := o.Dial
		o.Dial = func(ctx context.Context) (net.Conn, error) {
			conn, err := dial(ctx)
			dialling <- struct{}{}
			<-goOn
			return conn, err
		}
	})
	c := r.dial()
	c.send("PING\r\n")
	within(t, "dial", dialling)
	ended := make(chan struct{})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	go func() {
		defer close(ended)
		r.server.Retire(ctx)
	}()
	for r.server.era.Load() == 1 {
		runtime.Gosched()
	}
	goOn <- struct{}{}
	c.expect("+PONG\r\n")
	c.expectEOF()
	within(t, "end of Retire", ended)
}

// waitDraining returns when each session drains.
func waitDraining(t *testing.T, s *Server) {
	t.Helper()
	eventually(t, "all drain", func() bool {
		return !slices.ContainsFunc(s.all(), func(sess *Session) bool { return sess.life.now() == stateOpen })
	})
}
