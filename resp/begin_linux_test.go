package resp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidwall/redcon"

	"lockproxy/resp/internal/netpoll"
)

// started is a command that Begin has taken.
type started struct {
	conn redcon.Conn
	key  string
	done func()
}

func (b *started) answer() {
	b.conn.WriteBulkString("begun:" + b.key)
	b.done()
}

// beginner is a Begin that does as the key says: "now" is answered before it returns, "no" is
// refused, "panic" panics, all others are handed to the test.
type beginner struct {
	t       *testing.T
	others  chan *started
	refused atomic.Int64
	lost    chan string // keys of replies that were not delivered
}

func (b *beginner) begin(conn redcon.Conn, cmd redcon.Command, done func()) bool {
	if !onLoop() {
		b.t.Error("not begun on a loop")
	}
	one := &started{conn, string(cmd.Args[1]), done}
	switch one.key {
	case "no":
		b.refused.Add(1)
		return false
	case "panic":
		conn.WriteString("half a reply")
		panic("as told")
	}
	SessionOf(conn).OnUndelivered(func() { b.lost <- one.key })
	if one.key == "now" {
		one.answer()
		return true
	}
	b.others <- one
	return true
}

// next returns the next command that was begun, which must be of this key.
func (b *beginner) next(key string) *started {
	b.t.Helper()
	one := within(b.t, "command begun", b.others)
	if one.key != key {
		b.t.Fatalf("begun %q, want %q", one.key, key)
	}
	return one
}

// startBegin is startRelay with a beginner. The usual handler answers the commands that it
// refuses.
func startBegin(t *testing.T, network, upstream string, change func(*Options)) (*relay, *beginner) {
	b := &beginner{t: t, others: make(chan *started, 100), lost: make(chan string, 100)}
	return startRelay(t, network, upstream, func(o *Options) {
		o.Begin = b.begin
		if change != nil {
			change(o)
		}
		dial := o.Dial
		o.Dial = func(ctx context.Context) (net.Conn, error) {
			if onLoop() {
				t.Error("dialled on a loop")
			}
			return dial(ctx)
		}
	}), b
}

// lock is a lock command as client libraries write it, and its reply from a beginner.
func lock(keys ...string) (command, reply string) {
	for _, key := range keys {
		command += string(benchRequest("LOCK", key, "1000"))
		reply += "$" + fmt.Sprint(6+len(key)) + "\r\nbegun:" + key + "\r\n"
	}
	return command, reply
}

// known returns a connection whose standing is known.
func known(t *testing.T, r *relay) *client {
	c := r.dial()
	c.t = t
	c.send("PING\r\nLOCK a\r\n")
	c.expect("+PONG\r\n$5\r\nown:a\r\n")
	waitWatched(t)
	return c
}

// TestBeginOrder: replies of commands that begin on a loop reach the client in their order among
// those of the upstream, and a request after such a command is forwarded only when it is answered.
func TestBeginOrder(t *testing.T) {
	network, upstream := startRedis(t)
	r, b := startBegin(t, network, upstream, nil)
	x, xReply := lock("x")
	y, yReply := lock("y")
	now, nowReply := lock("now")
	no, _ := lock("no")
	c := r.dial()
	c.send("PING\r\n")
	c.expect("+PONG\r\n")
	waitWatched(t)
	c.send(now + now)
	c.expect("$7\r\nown:now\r\n$7\r\nown:now\r\n") // the upstream is asked who it is
	for range 50 {
		c.send("SET k 0\r\n")
		c.expect("+OK\r\n")
		waitWatched(t)
		c.send(now + x + now + y + "INCR k\r\nINCR k\r\n" + now)
		c.expect(nowReply)
		go b.next("x").answer()
		c.expect(xReply + nowReply)
		one := b.next("y")
		r.sees("0")
		one.answer()
		c.expect(yReply + ":1\r\n:2\r\n$7\r\nown:now\r\n") // a command after INCR has to wait, which takes a goroutine
		waitWatched(t)
		c.send(no + "GET k\r\n")
		c.expect("$6\r\nown:no\r\n$1\r\n2\r\n")
	}
	if n := b.refused.Load(); n != 50 {
		t.Errorf("%d commands were refused, want 50", n)
	}
}

// sees fails if the upstream has another value for k.
func (r *relay) sees(want string) {
	r.t.Helper()
	up, err := r.server.o.Dial(context.Background())
	if err != nil {
		r.t.Fatal(err)
	}
	defer up.Close()
	io.WriteString(up, "GET k\r\n")
	got := make([]byte, 100)
	n, _ := up.Read(got)
	if string(got[:n]) != "$1\r\n"+want+"\r\n" {
		r.t.Errorf("the upstream has %q, want %s", got[:n], want)
	}
}

// TestBeginWithoutUpstream: a client that only locks needs no upstream, and its commands begin on
// the loop all the same. They wake no goroutine.
func TestBeginWithoutUpstream(t *testing.T) {
	dials := 0
	r, b := startBegin(t, "", "", func(o *Options) {
		o.Dial = func(context.Context) (net.Conn, error) {
			dials++
			return nil, errors.New("no upstream here")
		}
		o.Facts = func() Facts { return Facts{} }
	})
	c := r.dial()
	now, reply := lock("now")
	c.send(now)
	c.expect(reply)
	before := goroutinesMade()
	for range 1000 {
		c.send(now)
		c.expect(reply)
	}
	if n := goroutinesMade() - before; n > 100 {
		t.Errorf("%d goroutines for 1000 commands", n)
	}
	x, xReply := lock("x")
	c.send(x + now + "PING\r\n" + now)
	b.next("x").answer()
	c.expect(xReply + reply + "-ERR upstream : no upstream here\r\n$7\r\nown:now\r\n")
	// in the name, and after it, when a goroutine has to read it
	for _, part := range []int{len("*3\r\n$4\r\nLO"), len(x) - 2} {
		c.send(x[:part])
		waitRead(t, r, c)
		c.send(x[part:])
		if part < 20 {
			b.next("x").answer()
			c.expect(xReply)
		} else {
			c.expect("$5\r\nown:x\r\n")
		}
	}
	if dials != 1 {
		t.Errorf("%d dials, want one", dials)
	}
}

// waitRead returns when the server has read all bytes sent to it.
func waitRead(t *testing.T, r *relay, c *client) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		if queued, _ := netpoll.Queued(c.Conn); queued == 0 && only(t, r.server).progress.begun.Load() > 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("the server does not read")
		}
	}
}

// TestBeginLimited: what Redis refuses before authentication is not begun.
func TestBeginLimited(t *testing.T) {
	network, upstream := startRedis(t, "--requirepass", "secret")
	r, b := startBegin(t, network, upstream,
		func(o *Options) { o.Facts = func() Facts { return Facts{AuthRequired: true} } })
	c := r.dial()
	c.send(string(benchRequest(append([]string{"LOCK"}, slices.Repeat([]string{"a"}, 20)...)...)))
	c.expect("-ERR Protocol error: unauthenticated multibulk length\r\n")
	c.expectEOF()
	if len(b.others) > 0 {
		t.Error("it was begun")
	}
}

// TestBeginInBody: what looks like a lock command inside another one's argument is none.
func TestBeginInBody(t *testing.T) {
	network, upstream := startRedis(t)
	r, b := startBegin(t, network, upstream, nil)
	c := r.dial()
	x, _ := lock("x")
	c.send(fmt.Sprintf("*3\r\n$4\r\nLOCK\r\n$%d\r\n", len(x)))
	waitRead(t, r, c)
	c.send(x + "\r\n:1\r\n")
	c.expect("-ERR Protocol error: expected '$', got ':'\r\n")
	c.expectEOF()
	if len(b.others) > 0 {
		t.Error("it was begun")
	}
}
