package resp

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/tidwall/redcon"
)

// TestBeginPanics: a panic in Begin is answered and ends that connection only. Later calls of done
// have no effect.
func TestBeginPanics(t *testing.T) {
	network, upstream := startRedis(t)
	large := "$" + fmt.Sprint(8<<20) + "\r\n" + strings.Repeat("x", 8<<20) + "\r\n"
	var late func()
	r := startRelay(t, network, upstream, func(o *Options) {
		o.Begin = func(conn redcon.Conn, cmd redcon.Command, done func()) bool {
			switch late = done; string(cmd.Args[1]) {
			case "large":
				conn.WriteRaw([]byte(large))
				done()
			case "answered":
				conn.WriteString("answered")
				done()
			case "written":
				conn.WriteString("half")
			}
			panic("as told")
		}
	})
	for key, want := range map[string]string{"bare": "-ERR internal\r\n", "written": "-ERR internal\r\n",
		"answered": "+answered\r\n", "large": large} {
		t.Run(key, func(t *testing.T) {
			for _, c := range []*client{dialRaw(t, "tcp", r.addr), known(t, r)} {
				command, _ := lock(key)
				c.send(command)
				c.expect(want)
				c.expectEOF()
				late()
			}
			waitGone(t, r.server)
		})
	}
}

// TestBeginCloses: a command may end the connection after its reply.
func TestBeginCloses(t *testing.T) {
	network, upstream := startRedis(t)
	r, b := startBegin(t, network, upstream, nil)
	x, reply := lock("x")
	c := known(t, r)
	c.send(x + "PING\r\n")
	one := b.next("x")
	one.conn.Close()
	one.answer()
	c.expect(reply)
	if _, err := c.r.ReadByte(); err == nil {
		t.Error("the connection goes on")
	}
	waitGone(t, r.server)
}

// TestBeginAndPushes: pushes, of the upstream and ours, come between replies, not within.
func TestBeginAndPushes(t *testing.T) {
	network, upstream := startRedis(t)
	r, b := startBegin(t, network, upstream, nil)
	c := r.dial()
	c.send("HELLO 3\r\n")
	skipFrame(t, c.r)
	c.send("SUBSCRIBE c\r\n")
	skipFrame(t, c.r)
	c.send("LOCK a\r\n")
	c.expect("$5\r\nown:a\r\n")
	waitWatched(t)
	stop, stopped := make(chan struct{}), make(chan struct{})
	other := dialRaw(t, network, upstream)
	sess := only(t, r.server)
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				other.Write([]byte("PUBLISH c " + strings.Repeat("x", 40000) + "\r\n"))
				other.r.ReadString('\n')
				sess.Push([]byte(">2\r\n+own\r\n+push\r\n"))
			}
		}
	}()
	next := func() string {
		frame := skipFrame(t, c.r)
		for frame[0] == '>' {
			frame = skipFrame(t, c.r)
		}
		return frame
	}
	x, reply := lock("x")
	now, nowReply := lock("now")
	for range 300 {
		c.send(x)
		b.next("x").answer()
		if frame := next(); frame != reply {
			t.Fatalf("got %q, want %q", frame, reply)
		}
		c.send(now)
		if frame := next(); frame != nowReply {
			t.Fatalf("got %q, want %q", frame, nowReply)
		}
	}
	close(stop)
	go io.Copy(io.Discard, c.r)
	<-stopped
}

// TestBeginAndSlowReader: done does not wait for a client that does not read. The reply reaches
// it whole and in its order, or its loss is reported.
func TestBeginAndSlowReader(t *testing.T) {
	network, upstream := startRedis(t)
	r, b := startBegin(t, network, upstream, nil)
	x, _ := lock("x")
	now, nowReply := lock("now")
	large := "$" + fmt.Sprint(8<<20) + "\r\n" + strings.Repeat("x", 8<<20) + "\r\n"
	for _, leaves := range []bool{false, true} {
		c := known(t, r)
		c.send(x + "PING\r\n")
		one := b.next("x")
		one.conn.WriteRaw([]byte(large))
		one.done()
		if leaves {
			c.Conn.(*net.TCPConn).SetLinger(0)
			c.Close()
			if key := within(t, "word of the lost reply", b.lost); key != "x" {
				t.Errorf("lost %q", key)
			}
		} else {
			c.expect(large + "+PONG\r\n")
			c.Close()
		}
		waitGone(t, r.server)
		if len(b.lost) > 0 {
			t.Errorf("a reply that was read counts as lost")
		}
	}
	c := known(t, r)
	c.send(x)
	one := b.next("x")
	one.conn.WriteRaw([]byte(large))
	one.done()
	c.send(now) // begins when the reply is written
	c.expect(large + nowReply)
}
