package resp

import (
	"context"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidwall/redcon"
	"golang.org/x/sys/unix"

	"lockproxy/resp/internal/netpoll"
)

// TestBeginAndDrain: a connection whose command runs ends when that is answered; one that sends
// the next command as soon as it can, too; and at the limit all do.
func TestBeginAndDrain(t *testing.T) {
	network, upstream := startRedis(t)
	for _, alone := range []bool{true, false} {
		r, b := startBegin(t, network, upstream, nil)
		dial := func() *client {
			if alone {
				return r.dial()
			}
			return known(t, r)
		}
		c, busy, late := dial(), dial(), dial()
		x, reply := lock("x")
		now, nowReply := lock("now")
		c.send(x)
		one := b.next("x")
		late.send(string(benchRequest("LOCK", "late", "1")))
		last := b.next("late")
		ended := make(chan struct{})
		busy.send(now)
		go func() {
			defer close(ended)
			for got := make([]byte, len(nowReply)); ; busy.Write([]byte(now)) {
				if _, err := io.ReadFull(busy.r, got); err != nil {
					return
				}
			}
		}()
		ctx, cancel := context.WithCancel(t.Context())
		stopped := make(chan error, 1)
		go func() { stopped <- r.server.Shutdown(ctx) }()
		within(t, "end of the busy client", ended)
		one.answer()
		c.expect(reply)
		c.expectEOF()
		cancel()
		within(t, "end of the context", SessionOf(last.conn).Context().Done())
		late.expectEOF()
		last.answer()
		if key := within(t, "word of the lost reply", b.lost); key != "late" {
			t.Errorf("lost %q", key)
		}
		within(t, "end of Shutdown", stopped)
	}
}

// TestBeginDraining: a draining connection ends after the reply, before the client can go on.
func TestBeginDraining(t *testing.T) {
	network, upstream := startRedis(t)
	r, b := startBegin(t, network, upstream, nil)
	for _, key := range []string{"now", "x"} {
		for _, c := range []*client{r.dial(), known(t, r)} {
			for _, sess := range r.server.all() {
				sess.life.drain() // as Retire does, which then wakes the pump: here the client is quicker
			}
			command, reply := lock(key)
			c.send(command)
			if key == "x" {
				b.next("x").answer()
			}
			c.expect(reply)
			c.expectEOF()
			c.Close()
		}
		waitGone(t, r.server)
	}
	for _, key := range []string{"now", "x"} { // when it is at rest again
		r, b := startBegin(t, network, upstream, nil)
		c := known(t, r)
		command, reply := lock(key)
		c.send(command)
		if key == "x" {
			b.next("x").answer()
		}
		c.expect(reply)
		c.send("BLPOP q 0\r\n")
		other := dialRaw(t, network, upstream)
		for blocked := false; !blocked; blocked = strings.Contains(skipFrame(t, other.r), "blocked_clients:1") {
			other.send("INFO clients\r\n")
		}
		go r.server.Shutdown(t.Context())
		waitDraining(t, r.server)
		time.Sleep(2 * drainStep) // it is woken for the first time
		other.send("RPUSH q a\r\n")
		c.expect("*2\r\n$1\r\nq\r\n$1\r\na\r\n")
		c.expectEOF()
	}
	c := known(t, r) // who leaves meanwhile has done so itself
	command, reply := lock("x")
	c.send(command)
	one, end := b.next("x"), make(chan End, 1)
	SessionOf(one.conn).OnEnd(func(how End) { end <- how })
	one.answer()
	c.expect(reply)
	c.send("PING\r\n") // after the reply the loop checks whether the session drains
	c.expect("+PONG\r\n")
	SessionOf(one.conn).life.drain()
	c.Close()
	if how := within(t, "end", end); how != EndClient {
		t.Errorf("it ended as %d, want the client", how)
	}
}

// heldUp is a relay whose loop waits, after hold, until free is called.
type heldUp struct {
	*relay
	began   *beginner
	release chan struct{}
	once    sync.Once // release was closed
	first   *client
	one     *started
}

// startHeldUp starts the relay. Its Begin takes no command but that of hold.
func startHeldUp(t *testing.T) *heldUp {
	t.Helper()
	h := &heldUp{release: make(chan struct{})}
	network, upstream := startRedis(t)
	h.relay, h.began = startBegin(t, network, upstream, func(o *Options) {
		begin := o.Begin
		o.Begin = func(conn redcon.Conn, cmd redcon.Command, done func()) bool {
			if string(cmd.Args[1]) != "hold" {
				return false
			}
			taken := begin(conn, cmd, done)
			<-h.release
			return taken
		}
	})
	return h
}

// hold holds the loop up.
func (h *heldUp) hold(t *testing.T) {
	t.Helper()
	h.first = h.dial()
	command, _ := lock("hold")
	h.first.send(command)
	h.one = h.began.next("hold")
	t.Cleanup(h.free) // before the relay ends
}

// free frees the loop.
func (h *heldUp) free() {
	h.once.Do(func() {
		close(h.release)
		h.one.answer()
	})
}

// goOn frees the loop, and wants the client of hold to be answered.
func (h *heldUp) goOn() {
	h.free()
	_, reply := lock("hold")
	h.first.expect(reply)
	h.first.expectEOF()
}

// bring sends bytes and returns when they are in the socket of the proxy.
func bring(t *testing.T, c *client, b string) {
	t.Helper()
	c.send(b)
	waitArrived(t, c)
}

// waitArrived returns when all that the client has sent is in the socket of the proxy, also its
// end of input.
func waitArrived(t *testing.T, c *client) {
	t.Helper()
	raw, err := c.Conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "all is there", func() bool {
		unacked := -1
		raw.Control(func(fd uintptr) { unacked, _ = unix.IoctlGetInt(int(fd), unix.SIOCOUTQ) })
		return unacked == 0
	})
}

// known returns a client whose standing is known, and its session.
func (h *heldUp) known(t *testing.T) (*client, *Session) {
	t.Helper()
	c := known(t, h.relay)
	for _, s := range h.server.all() {
		if s.Address() == c.LocalAddr().String() {
			return c, s
		}
	}
	t.Fatal("the client has no session")
	return nil, nil
}

// TestDrainAnswersWhatHasCome: a request that has arrived before the drain is answered, though the
// loop had no time to read it.
func TestDrainAnswersWhatHasCome(t *testing.T) {
	h := startHeldUp(t)
	fresh := h.dial()
	used, _ := h.known(t)
	h.hold(t)
	bring(t, fresh, "LOCK a\r\n")
	bring(t, used, "LOCK a\r\n")
	go h.server.Shutdown(t.Context())
	for _, c := range []*client{fresh, used} {
		c.expect("$5\r\nown:a\r\n")
	}
	h.goOn()
	for _, c := range []*client{fresh, used} {
		c.expectEOF()
	}
}

// TestDrainKeepsOrder: requests that follow a lock command are answered in their order before a
// draining connection ends, whether they were read ahead or wait in the socket, and no request is
// taken for two.
func TestDrainKeepsOrder(t *testing.T) {
	for _, tt := range []struct{ name, ahead, unread, want string }{
		{"read ahead", "ECHO a\r\n", "", "$1\r\na\r\n"},
		{"in the socket", "", "ECHO b\r\n", "$1\r\nb\r\n"},
		{"both", "ECHO a\r\n", "ECHO b\r\n", "$1\r\na\r\n$1\r\nb\r\n"},
		{"half read ahead", "*2\r\n$4\r\nECHO\r\n$6\r\nPI", "NG\r\n\r\nPING\r\n", "$6\r\nPING\r\n\r\n+PONG\r\n"},
		{"lock commands", "LOCK a\r\nECHO a\r\n", "LOCK b\r\nECHO b\r\n",
			"$5\r\nown:a\r\n$1\r\na\r\n$5\r\nown:b\r\n$1\r\nb\r\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := startHeldUp(t)
			c, s := h.known(t)
			c.send("LOCK wait\r\n")
			within(t, "LOCK", h.handler.enter)
			c.send(tt.ahead)
			waitAhead(t, s, len(tt.ahead))
			h.hold(t)
			bring(t, c, tt.unread)
			go h.server.Shutdown(t.Context())
			waitDraining(t, h.server)
			h.handler.leave <- struct{}{}
			c.expect("$8\r\nown:wait\r\n")
			waitState(t, s, stateEnding)
			h.goOn()
			c.expect(tt.want)
			c.expectEOF()
		})
	}
}

// TestDrainEndsAfterLastRead: what exceeds the last read is not served, and does not take away the
// replies before it by a reset.
func TestDrainEndsAfterLastRead(t *testing.T) {
	h := startHeldUp(t)
	c, s := h.known(t)
	c.Conn.(*net.TCPConn).SetReadBuffer(16 << 10) // most of the replies wait in the proxy's socket
	value := strings.Repeat("v", 150_000)
	c.send(string(benchRequest("SET", "big", value)))
	c.expect("+OK\r\n")
	waitWatched(t)
	h.hold(t)
	rest := strings.Repeat("r", netpoll.ChunkSize-len("GET big\r\n*2\r\n$4\r\nECHO\r\n$65489\r\n\r\nLOCK a\r\n"))
	requests := "GET big\r\n" + string(benchRequest("ECHO", rest)) + "LOCK a\r\n"
	if len(requests) != netpoll.ChunkSize {
		t.Fatalf("%d bytes are not one read", len(requests))
	}
	bring(t, c, requests+"LOCK b\r\n")
	go h.server.Shutdown(t.Context())
	waitState(t, s, stateEnding)
	start := time.Now()
	h.goOn()
	waitState(t, s, stateLingering)
	time.Sleep(3 * drainStep)     // Shutdown looks at the connection meanwhile
	c.Write([]byte("LOCK b\r\n")) // it has not noticed the end yet
	if time.Since(start) > lingerTime/2 {
		t.Skip("the client was too slow to send on while the proxy lingers")
	}
	c.Conn.(*net.TCPConn).SetReadBuffer(1 << 20)
	c.expect("$150000\r\n" + value + "\r\n$" + strconv.Itoa(len(rest)) + "\r\n" + rest + "\r\n$5\r\nown:a\r\n")
	c.expectEOF()
}

// TestLingeringKeepsReplies: replies that wait in the proxy's socket reach the client though the
// wait for its last bytes was ended early: linger wakes the pump by a deadline, which may come
// late.
func TestLingeringKeepsReplies(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	dialled, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer dialled.Close()
	dialled.(*net.TCPConn).SetReadBuffer(16 << 10)
	accepted, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	s := NewServer(Options{}).newSession(accepted)
	replies := strings.Repeat("r", 150_000)
	s.Push([]byte(replies))
	dialled.Write([]byte("PING\r\n")) // unread, so that closing would be a reset
	s.life.end(causeUpstreamEnd, EndProxy)
	s.client.SetReadDeadline(time.Unix(1, 0))
	go s.close()
	dialled.SetDeadline(time.Now().Add(patience))
	if got, err := io.ReadAll(dialled); err != nil || string(got) != replies {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

// TestDrainFindsTheClientGone: a client that had left before the drain has done so itself, though
// the loop had no time to notice. The requests that it had sent are served.
func TestDrainFindsTheClientGone(t *testing.T) {
	for _, tt := range []struct{ name, send, want string }{
		{"at rest", "", ""},
		{"after a request", "LOCK a\r\n", "$5\r\nown:a\r\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := startHeldUp(t)
			c, s := h.known(t)
			end := make(chan End, 1)
			s.OnEnd(func(how End) { end <- how })
			h.hold(t)
			c.send(tt.send)
			c.Conn.(*net.TCPConn).CloseWrite()
			waitArrived(t, c)
			go h.server.Shutdown(t.Context())
			if how := within(t, "end", end); how != EndClient {
				t.Errorf("it ended as %d, want the client", how)
			}
			h.goOn()
			c.expect(tt.want)
			c.expectEOF()
		})
	}
}

// TestDrainFindsQuit: a lock command that waits is told of a later QUIT that the last read has
// found.
func TestDrainFindsQuit(t *testing.T) {
	h := startHeldUp(t)
	c, s := h.known(t)
	c.send("LOCK wait\r\nLOCK wait\r\n")
	within(t, "LOCK", h.handler.enter)
	h.hold(t)
	bring(t, c, "QUIT\r\n")
	go h.server.Shutdown(t.Context())
	waitDraining(t, h.server)
	h.handler.leave <- struct{}{}
	within(t, "the second LOCK", h.handler.enter)
	h.free() // the end of hold's client may come first
	within(t, "word of QUIT", s.ClientClosed())
	h.handler.leave <- struct{}{}
	c.expect(strings.Repeat("$8\r\nown:wait\r\n", 2) + "+OK\r\n")
	c.expectEOF()
}

// waitAhead returns when n bytes were read ahead.
func waitAhead(t *testing.T, s *Session, n int) {
	t.Helper()
	a := &s.in.ahead
	eventually(t, "the bytes are read ahead", func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		return a.size == n
	})
}

// waitState returns when a session has reached the state.
func waitState(t *testing.T, s *Session, want state) {
	t.Helper()
	eventually(t, "the state is reached", func() bool { return s.life.now() >= want })
}
