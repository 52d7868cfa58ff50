package resp

import (
	"context"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/redcon"
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

// TestDrainAnswersWhatHasCome: a request that has arrived before the drain is answered, though the
// loop had no time to read it.
func TestDrainAnswersWhatHasCome(t *testing.T) {
	network, upstream := startRedis(t)
	release := make(chan struct{})
	r, b := startBegin(t, network, upstream, func(o *Options) {
		begin := o.Begin
		o.Begin = func(conn redcon.Conn, cmd redcon.Command, done func()) bool {
			taken := begin(conn, cmd, done)
			<-release
			return taken
		}
	})
	fresh, used, first := r.dial(), known(t, r), r.dial()
	x, reply := lock("x")
	first.send(x)
	one := b.next("x") // the loop waits
	for _, c := range []*client{fresh, used} {
		c.send("LOCK a\r\n")
	}
	go r.server.Shutdown(t.Context())
	waitDraining(t, r.server)
	time.Sleep(2 * drainStep) // they are woken
	close(release)
	one.answer()
	first.expect(reply)
	for _, c := range []*client{fresh, used, first} {
		if c != first {
			c.expect("$5\r\nown:a\r\n")
		}
		c.expectEOF()
	}
}

// waitDraining returns when each session drains.
func waitDraining(t *testing.T, s *Server) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		if !slices.ContainsFunc(s.all(), func(sess *Session) bool { return sess.life.now() == stateOpen }) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("no end is asked for")
		}
	}
}
