package resp

import (
	"net"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestBeginAndLeave: a client that closes before the reply is written does not get it, which is
// reported once. A client that has only ended its input gets it, and all later replies.
func TestBeginAndLeave(t *testing.T) {
	network, upstream := startRedis(t)
	r, b := startBegin(t, network, upstream, nil)
	x, reply := lock("x")
	now, begunReply := lock("now")
	for _, behind := range []string{"", now, "PING\r\n", now + "PING\r\n", "PI"} {
		for name, end := range map[string]func(c *net.TCPConn) error{
			"close": (*net.TCPConn).Close, "half-close": (*net.TCPConn).CloseWrite, "half-close after the reply": nil,
			"reset": func(c *net.TCPConn) error { c.SetLinger(0); return c.Close() },
		} {
			c, nowReply := known(t, r), begunReply
			c.send(x + behind)
			one := b.next("x")
			socket := c.Conn.(*net.TCPConn)
			if end != nil {
				end(socket)
				within(t, "word that the client is gone", SessionOf(one.conn).ClientClosed())
			}
			one.answer()
			if end == nil {
				socket.CloseWrite()
			}
			one.done()                // counts no more
			if name == "half-close" { // a goroutine goes on
				nowReply = "$7\r\nown:now\r\n"
			}
			if strings.HasPrefix(name, "half-close") {
				c.expect(reply + strings.NewReplacer(now, nowReply, "PING\r\n", "+PONG\r\n", "PI", "").Replace(behind))
				c.expectEOF()
			} else if key := within(t, "word of the lost reply", b.lost); key != "x" {
				t.Errorf("%s with %q behind: lost %q", name, behind, key)
			}
			waitGone(t, r.server)
			lost := b.allLost()
			if others := slices.DeleteFunc(lost, func(key string) bool {
				return key == "now" &&
					name != "half-close"
			}); len(others) > 0 {
				t.Errorf("%s with %q behind: %q were lost, too", name, behind, others)
			}
		}
	}
}

// allLost returns the keys whose replies were lost and not looked at yet.
func (b *beginner) allLost() (keys []string) {
	for len(b.lost) > 0 {
		keys = append(keys, <-b.lost)
	}
	return keys
}

// TestBeginClientClosed: a running command learns of a QUIT after it, at any time and in any
// pieces.
func TestBeginClientClosed(t *testing.T) {
	network, upstream := startRedis(t)
	r, b := startBegin(t, network, upstream, nil)
	x, reply := lock("x")
	for _, pieces := range [][]string{{x + "QUIT\r\n"}, {x, "QUIT\r\n"}, {x + "PI", "NG\r\n*1\r\n$4\r\nQU", "IT\r\n"},
		{x + x, "PING\r\nQUIT\r\n"}} {
		c := known(t, r)
		c.send(pieces[0])
		one := b.next("x")
		for _, piece := range pieces[1:] {
			select {
			case <-SessionOf(one.conn).ClientClosed():
				t.Errorf("%q: gone before QUIT came", pieces)
			case <-time.After(time.Millisecond):
			}
			c.send(piece)
		}
		within(t, "word that the client is gone", SessionOf(one.conn).ClientClosed())
		one.answer()
		c.expect(reply)
		if strings.HasPrefix(pieces[0], x+x) {
			b.next("x").answer()
			c.expect(reply)
		}
		if strings.Contains(strings.Join(pieces, ""), "PING") {
			c.expect("+PONG\r\n")
		}
		c.expect("+OK\r\n")
		c.expectEOF()
		c.Close()
		waitGone(t, r.server)
	}
}

// TestBeginWoken: a command goes on when the server asks for the end of the connection, and learns
// that the client leaves after that, too.
func TestBeginWoken(t *testing.T) {
	network, upstream := startRedis(t)
	r, b := startBegin(t, network, upstream, nil)
	x, reply := lock("x")
	c := known(t, r)
	c.send(x)
	one := b.next("x")
	sess := SessionOf(one.conn)
	sess.wake(false)
	select {
	case <-sess.ClientClosed():
		t.Error("the client counts as gone")
	case <-time.After(5 * time.Millisecond):
	}
	c.send("PI")
	c.Conn.(*net.TCPConn).CloseWrite()
	within(t, "word that the client is gone", sess.ClientClosed())
	one.answer()
	c.expect(reply)
	c.expectEOF()
}

// TestBeginAndUpstreamEnds: the client's connection ends with the upstream's, after the reply.
func TestBeginAndUpstreamEnds(t *testing.T) {
	network, upstream := startRedis(t)
	r, b := startBegin(t, network, upstream, nil)
	c := known(t, r)
	c.send("CLIENT ID\r\n")
	id := skipFrame(t, c.r)
	x, _ := lock("x")
	c.send(x)
	one := b.next("x")
	other := dialRaw(t, network, upstream)
	other.send("CLIENT KILL ID " + strings.TrimSpace(id[1:]) + "\r\n")
	other.expect(":1\r\n")
	c.expectEOF() // as without: the upstream's end is passed on at once
	one.answer()
	if key := within(t, "word of the lost reply", b.lost); key != "x" {
		t.Errorf("lost %q", key)
	}
	waitGone(t, r.server)
}
