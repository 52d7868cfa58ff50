package resp

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidwall/redcon"
)

// within fails the test if ch gives no value within patience.
func within[T any](t *testing.T, what string, ch <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-ch:
	case <-time.After(patience):
		t.Fatalf("no %s after %v", what, patience)
	}
	return v
}

// TestResetDuringCommand: a client that resets the connection while its command runs cannot be
// sent the result, so that the handler is informed.
func TestResetDuringCommand(t *testing.T) {
	network, addr := startRedis(t)
	r := startRelay(t, network, addr, nil)
	for _, send := range []string{"LOCK wait\r\n", "PING\r\nLOCK wait\r\n"} {
		c := r.dial()
		c.send(send)
		within(t, "command", r.handler.enter)
		c.Conn.(*net.TCPConn).SetLinger(0)
		c.Close()
		r.handler.leave <- struct{}{}
		if key := within(t, "word of the lost reply", r.handler.lost); key != "wait" {
			t.Errorf("lost %q", key)
		}
	}
}

// TestUpstreamGoneDuringCommand: the client's connection ends with the upstream's, also while a
// command of ours runs.
func TestUpstreamGoneDuringCommand(t *testing.T) {
	network, addr := startRedis(t)
	r := startRelay(t, network, addr, nil)
	c := r.dial()
	c.send("CLIENT ID\r\n")
	id := skipFrame(t, c.r)
	c.send("LOCK wait\r\n")
	within(t, "command", r.handler.enter)
	other := dialRaw(t, network, addr)
	other.send("CLIENT KILL ID " + strings.TrimSpace(id[1:]) + "\r\n")
	other.expect(":1\r\n")
	c.expectEOF()
	r.handler.leave <- struct{}{}
	within(t, "word of the lost reply", r.handler.lost)
}

// echoOf returns an ECHO of n bytes.
func echoOf(n int) string {
	return string(appendCommand(nil, asBytes([]string{"ECHO", strings.Repeat("x", n)}), 2))
}

// TestWriteWithoutReading: a client may write a long pipeline with commands of ours in it before
// it reads anything.
func TestWriteWithoutReading(t *testing.T) {
	network, addr := startRedis(t)
	r := startRelay(t, network, addr, nil)
	c := r.dial()
	c.SetDeadline(time.Now().Add(patience))
	const count, body = 39, 1 << 20
	echo := echoOf(body)
	half := strings.Repeat(echo, count/2)
	c.send(half + "LOCK a 1\r\n" + half + "LOCK b 1\r\n")
	reply := echo[len("*2\r\n$4\r\nECHO\r\n"):]
	replies := strings.Repeat(reply, count/2)
	c.expect(replies + "$5\r\nown:a\r\n" + replies + "$5\r\nown:b\r\n")
	if used := aheadUsed.Load(); used != 0 {
		t.Errorf("%d bytes of the shared memory were not given back", used)
	}
}

// TestReadAheadIsBounded: a client that sends too much after a running command is disconnected.
// The proxy could not notice its end before it has read all of that, and the command would run on.
func TestReadAheadIsBounded(t *testing.T) {
	network, addr := startRedis(t)
	ends, enter := make(chan End, 10), make(chan struct{})
	r := startRelay(t, network, addr, func(o *Options) {
		o.Handler = redcon.HandlerFunc(func(conn redcon.Conn, _ redcon.Command) {
			SessionOf(conn).OnEnd(func(how End) { ends <- how })
			close(enter)
			<-SessionOf(conn).ClientClosed()
			conn.WriteString("gone")
		})
	})
	c := r.dial()
	c.SetDeadline(time.Now().Add(patience))
	c.send("LOCK wait\r\n")
	within(t, "command", enter)
	chunk := []byte(echoOf(200 << 10))
	for n := 0; ; n += len(chunk) {
		if _, err := c.Write(chunk); err != nil {
			if n < aheadMost {
				t.Errorf("disconnected after %d bytes: %v", n, err)
			}
			break
		}
		if n > 2*aheadMost {
			t.Fatalf("%d bytes were taken while the command ran", n)
		}
	}
	if how := within(t, "end", ends); how != EndProxy {
		t.Errorf("it ended as %d, want the proxy", how)
	}
	waitGone(t, r.server)
	if used := aheadUsed.Load(); used != 0 {
		t.Errorf("%d bytes of the shared memory were not given back", used)
	}
}

func TestMaxClients(t *testing.T) {
	network, addr := startRedis(t)
	r := startRelay(t, network, addr, func(o *Options) { o.MaxClients = 2 })
	a, b := r.dial(), r.dial()
	a.send("PING\r\n")
	a.expect("+PONG\r\n")
	b.send("PING\r\n")
	b.expect("+PONG\r\n")
	over := r.dial()
	over.expect("-ERR max number of clients reached\r\n")
	over.expectEOF()
	a.send("QUIT\r\n")
	a.expect("+OK\r\n")
	a.expectEOF()
	a.Close()
	for r.server.Connections() > 1 {
	}
	again := r.dial()
	again.send("PING\r\n")
	again.expect("+PONG\r\n")
}

// TestShutdownWaitsForUnansweredRequests: idle connections and subscribers end at once, one with
// an unanswered request when it is answered, the rest at the limit.
func TestShutdownWaitsForUnansweredRequests(t *testing.T) {
	network, addr := startRedis(t)
	r := startRelay(t, network, addr, nil)
	idle, blocked, subscribed, inside := r.dial(), r.dial(), r.dial(), r.dial()
	idle.send("PING\r\n")
	idle.expect("+PONG\r\n")
	blocked.send("CLIENT NO-EVICT off\r\nBLPOP q 0\r\n")
	blocked.expect("+OK\r\n")
	subscribed.send("SUBSCRIBE c\r\n")
	subscribed.expect("*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n")
	inside.send("MULTI\r\n")
	inside.expect("+OK\r\n")
	stopped := make(chan error, 1)
	limit := errors.New("the limit")
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() { stopped <- r.server.Shutdown(ctx) }()
	idle.expectEOF()
	subscribed.expectEOF()
	if c, err := net.Dial("tcp", r.addr); err == nil {
		c.Close()
		t.Error("a connection was accepted during the shutdown")
	}
	other := dialRaw(t, network, addr)
	other.send("RPUSH q x\r\n")
	other.expect(":1\r\n")
	blocked.expect("*2\r\n$1\r\nq\r\n$1\r\nx\r\n")
	blocked.expectEOF()
	select {
	case err := <-stopped:
		t.Fatalf("Shutdown returned %v with a transaction open", err)
	default:
	}
	cancel(limit)
	if err := within(t, "end of Shutdown", stopped); !errors.Is(err, limit) {
		t.Errorf("Shutdown returned %v, want %v", err, limit)
	}
	if _, err := inside.r.ReadByte(); err == nil {
		t.Error("the open transaction was not cut off")
	}
}

// TestHeldBackBytes: the upstream gets every byte of the client, also the beginning of a request
// that never came to its end.
func TestHeldBackBytes(t *testing.T) {
	for _, send := range []string{"PI", "*1\r\n$4\r\nPI", "*1", "PING\r\n*2\r\n$3\r\nGET\r\n$1"} {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer ln.Close()
		got := make(chan string, 1)
		go func() {
			c, err := ln.Accept()
			if err != nil {
				got <- err.Error()
				return
			}
			b, _ := io.ReadAll(c)
			got <- string(b)
			c.Close()
		}()
		r := startRelay(t, "tcp", ln.Addr().String(), nil)
		c := r.dial()
		c.send("*1\r\n$4\r\nPING\r\n" + send)
		c.Conn.(*net.TCPConn).CloseWrite()
		if b := within(t, "end of input", got); b != "*1\r\n$4\r\nPING\r\n"+send {
			t.Errorf("the upstream got %q, want all of %q", b, send)
		}
		c.expectEOF()
	}
}

// TestReadAheadIsGivenBack: memory taken from the shared part does not stay away with a client
// that leaves.
func TestReadAheadIsGivenBack(t *testing.T) {
	network, addr := startRedis(t)
	r := startRelay(t, network, addr, nil)
	c := r.dial()
	c.send("LOCK wait\r\n")
	within(t, "command", r.handler.enter)
	var writer sync.WaitGroup
	writer.Go(func() { c.Write([]byte(strings.Repeat("*1\r\n$4\r\nPING\r\n", 100000))) })
	for aheadUsed.Load() == 0 {
	}
	c.Conn.(*net.TCPConn).SetLinger(0)
	c.Close()
	writer.Wait() // until then the connection is not reset, and the reply could be written
	r.handler.leave <- struct{}{}
	within(t, "word of the lost reply", r.handler.lost)
	for deadline := time.Now().Add(patience); aheadUsed.Load() != 0; {
		if time.Now().After(deadline) {
			t.Fatalf("%d bytes were not given back", aheadUsed.Load())
		}
	}
}

// TestShutdownCutsBlockedWrites: an upstream that does not read, and a client that does not, are
// cut off at the limit all the same.
func TestShutdownCutsBlockedWrites(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	deaf := startRelay(t, "tcp", ln.Addr().String(), nil)
	network, addr := startRedis(t)
	full := startRelay(t, network, addr, nil)
	for name, tt := range map[string]struct {
		r    *relay
		send string
	}{
		"upstream does not read": {deaf, strings.Repeat("*1\r\n$4\r\nPING\r\n", 10000)},
		"client does not read":   {full, "*2\r\n$4\r\nECHO\r\n$100000\r\n" + strings.Repeat("x", 100000) + "\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			c := tt.r.dial()
			for sent := 0; sent < 50<<20; sent += len(tt.send) { // until no more bytes fit
				c.SetDeadline(time.Now().Add(200 * time.Millisecond))
				if _, err := c.Write([]byte(tt.send)); err != nil {
					break
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			stopped := make(chan error, 1)
			go func() { stopped <- tt.r.server.Shutdown(ctx) }()
			within(t, "end of Shutdown", stopped)
		})
	}
}

// TestHungUpstreamKeepsNoPlaces: clients that have left do not wait for an upstream that hangs,
// wherever they were.
func TestHungUpstreamKeepsNoPlaces(t *testing.T) {
	was := lastReplyTimeout
	t.Cleanup(func() { lastReplyTimeout = was })
	lastReplyTimeout = 50 * time.Millisecond
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	for _, send := range []string{"PING\r\n", "PING\r\nLOCK a\r\n", "SUBSCRIBE a\r\nRESET\r\n"} {
		r := startRelay(t, "tcp", ln.Addr().String(), nil)
		c := r.dial()
		c.send(send)
		up, err := ln.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer up.Close()
		c.Close()
		for deadline := time.Now().Add(patience); r.server.Connections() > 0; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%q: the connection of a client that has left lives on", send)
			}
		}
	}
}

// TestCloseBehindCommand: a client that has closed the connection before the reply came does not
// get it, although writing it works; one that has only ended its input does.
func TestCloseBehindCommand(t *testing.T) {
	network, addr := startRedis(t)
	r := startRelay(t, network, addr, nil)
	for _, send := range []string{"LOCK wait\r\n", "PING\r\nLOCK wait\r\n"} {
		for name, end := range map[string]func(*net.TCPConn) error{"close": (*net.TCPConn).Close,
			"half-close": (*net.TCPConn).CloseWrite} {
			c := r.dial()
			if send[0] == 'P' {
				c.send("PING\r\n")
				c.expect("+PONG\r\n")
			}
			c.send(send[strings.Index(send, "LOCK"):])
			within(t, "command", r.handler.enter)
			end(c.Conn.(*net.TCPConn))
			r.handler.leave <- struct{}{}
			if name == "close" {
				within(t, "word of the lost reply", r.handler.lost)
				continue
			}
			c.expect("$8\r\nown:wait\r\n")
			c.expectEOF()
			select {
			case <-r.handler.lost:
				t.Errorf("%q with a half-close: the reply counts as lost", send)
			default:
			}
		}
	}
}
