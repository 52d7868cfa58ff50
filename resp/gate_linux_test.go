package resp

import (
	"context"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
)

// TestGateBegins: a request on a lock key begins on a loop, and without an upstream if none is
// needed.
func TestGateBegins(t *testing.T) {
	network, addr := startRedis(t)
	var dials atomic.Int64
	r, b := startBegin(t, network, addr, func(o *Options) {
		o.Judge = judgeKeys
		dial := o.Dial
		o.Dial = func(ctx context.Context) (net.Conn, error) {
			dials.Add(1)
			return dial(ctx)
		}
	})
	const own = "$12\r\nbegun:lock:a\r\n"
	get := string(appendCommand(nil, asBytes([]string{"GET", "lock:a"}), 2))
	c := r.dial()
	for i := range 3 {
		at := 5 * (i + 1) // the request comes in two pieces
		c.send(get[:at])
		waitRead(t, r, c)
		c.send(get[at:] + get)
		for range 2 {
			b.next("lock:a").answer()
			c.expect(own)
		}
	}
	if n := dials.Load(); n > 0 {
		t.Errorf("%d dials for requests on lock keys", n)
	}
	c.send("PING\r\n" + get)
	c.expect("+PONG\r\n$10\r\nown:lock:a\r\n") // the handler: the upstream is asked who it is
	waitWatched(t)
	c.send(strings.Repeat(get, 20) + "PING\r\n")
	for range 20 {
		b.next("lock:a").answer()
		c.expect(own)
	}
	c.expect("+PONG\r\n")
	if n := dials.Load(); n != 1 {
		t.Errorf("%d dials, want 1", n)
	}
}

// TestGateClientClosed: a command that runs learns of a QUIT that is held back after it.
func TestGateClientClosed(t *testing.T) {
	network, addr := startRedis(t)
	r, b := startBegin(t, network, addr, func(o *Options) { o.Judge = judgeKeys })
	c := r.dial()
	c.send("*2\r\n$3\r\nGET\r\n$6\r\nlock:a\r\nSET lock:b 1\r\nQUIT\r\n")
	one := b.next("lock:a")
	within(t, "word that the client leaves", SessionOf(one.conn).ClientClosed())
	one.answer()
	c.expect("$12\r\nbegun:lock:a\r\n$10\r\nown:lock:b\r\n+OK\r\n")
	c.expectEOF()
}

// TestGateCuts: if replies cannot be distinguished, a request on a lock key ends the connection,
// and others pass.
func TestGateCuts(t *testing.T) {
	for name, send := range map[string][2]string{
		"replication":    {"PSYNC\r\n", "+CONTINUE\r\n"},
		"broken replies": {"LOSE\r\n", "$x\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			eachWay(t, func(t *testing.T, watched bool) {
				network, upstream := answering(t,
					map[string]string{"PING": "+PONG\r\n", "PSYNC": "+CONTINUE\r\n", "LOSE": "$x\r\n"})
				r := startGated(t, network, upstream, watched, nil)
				c := r.dial()
				c.t = t
				c.send(send[0])
				c.expect(send[1])
				c.send("PING\r\n")
				c.expect("+PONG\r\n")
				c.send("PING\r\n*2\r\n$3\r\nGET\r\n$6\r\nlock:")
				c.expect("+PONG\r\n")
				c.send("a\r\nPING\r\n")
				if rest, _ := io.ReadAll(c.r); len(rest) > 0 {
					t.Errorf("got %q, want the end", rest)
				}
			})
		})
	}
}
