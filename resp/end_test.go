package resp

import (
	"bufio"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/redcon"
)

// TestHowItEnded: who keeps something for a connection learns how it ended, and that once.
func TestHowItEnded(t *testing.T) {
	network, addr := startRedis(t)
	ends := make(chan End, 10)
	r := startRelay(t, network, addr, func(o *Options) {
		o.Handler = redcon.HandlerFunc(func(conn redcon.Conn, _ redcon.Command) {
			SessionOf(conn).OnEnd(func(how End) { ends <- how })
			conn.WriteString("OK")
		})
	})
	for _, tt := range []struct {
		name string
		do   func(c *client)
		want []End
	}{
		{"close", func(c *client) { c.Close() }, []End{EndClient}},
		{"half-close", func(c *client) { c.Conn.(*net.TCPConn).CloseWrite(); c.expectEOF() }, []End{EndClient}},
		{"RST", func(c *client) { c.Conn.(*net.TCPConn).SetLinger(0); c.Close() }, []End{EndClient}},
		{"QUIT", func(c *client) { c.send("QUIT\r\n"); c.expect("+OK\r\n"); c.expectEOF() }, []End{EndQuit}},
		{"RESET, close", func(c *client) { c.send("RESET\r\n"); c.expect("+RESET\r\n"); c.Close() },
			[]End{EndReset, EndClient}},
		{"RESET in MULTI, QUIT", func(c *client) {
			c.send("MULTI\r\nRESET\r\nQUIT\r\n")
			c.expect("+OK\r\n+RESET\r\n+OK\r\n")
			c.expectEOF()
		}, []End{EndReset, EndQuit}},
		{"killed at the upstream", func(c *client) {
			c.send("CLIENT ID\r\n")
			id := skipFrame(t, c.r)
			other := dialRaw(t, network, addr)
			other.send("CLIENT KILL ID " + strings.TrimSpace(id[1:]) + "\r\n")
			c.expectEOF()
		}, []End{EndProxy}},
		{"close, blocked", func(c *client) { c.send("BLPOP q 0\r\n"); c.Close() }, []End{EndClient}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, before := range []string{"", "PING\r\n"} {
				c := dialRaw(t, "tcp", r.addr)
				c.send(before + "LOCK a 1\r\n")
				c.expect(strings.Replace(before, "PING", "+PONG", 1) + "+OK\r\n")
				tt.do(c)
				for _, want := range tt.want {
					if got := within(t, "end", ends); got != want {
						t.Errorf("after %q: got %d, want %d", before, got, want)
					}
				}
				waitGone(t, r.server)
				select {
				case how := <-ends:
					t.Errorf("after %q: another end %d", before, how)
				default:
				}
			}
		})
	}
}

// TestCommandLearnsThatClientLeft: a command that waits learns at once that the client has left,
// or wants to.
func TestCommandLearnsThatClientLeft(t *testing.T) {
	network, addr := startRedis(t)
	r := startRelay(t, network, addr, func(o *Options) {
		o.Handler = redcon.HandlerFunc(func(conn redcon.Conn, _ redcon.Command) {
			select {
			case <-SessionOf(conn).ClientClosed():
				conn.WriteString("gone")
			case <-time.After(time.Minute):
				conn.WriteString("waited")
			}
		})
	})
	for _, tt := range []struct {
		name, send, more string
		end              func(c *client)
	}{
		{"half-close", "LOCK a\r\n", "", func(c *client) { c.Conn.(*net.TCPConn).CloseWrite() }},
		{"half-close with more", "PING\r\nLOCK a\r\n", "PING\r\n", func(c *client) { c.Conn.(*net.TCPConn).CloseWrite() }},
		{"QUIT with it", "LOCK a\r\nPING\r\nQUIT\r\n", "", func(*client) {}},
		{"QUIT later", "LOCK a\r\nPI", "NG\r\n*1\r\n$4\r\nQUIT\r\n", func(*client) {}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := dialRaw(t, "tcp", r.addr)
			c.send(tt.send)
			c.send(tt.more)
			tt.end(c)
			line, _ := c.r.ReadString('\n')
			if strings.HasPrefix(tt.send, "PING") {
				line, _ = c.r.ReadString('\n')
			}
			if line != "+gone\r\n" {
				t.Errorf("got %q", line)
			}
		})
	}
}

// TestResetIsToldFirst: a lock command after a RESET runs when EndReset was reported. Otherwise
// its lock would be taken for one from before the RESET.
func TestResetIsToldFirst(t *testing.T) {
	network, upstream := startRedis(t)
	told, goOn, entered := make(chan End, 10), make(chan struct{}), make(chan struct{}, 10)
	r := startRelay(t, network, upstream, func(o *Options) {
		o.Handler = redcon.HandlerFunc(func(conn redcon.Conn, _ redcon.Command) {
			SessionOf(conn).OnEnd(func(how End) {
				if told <- how; how == EndReset {
					<-goOn
				}
			})
			entered <- struct{}{}
			conn.WriteString("OWN")
		})
	})
	c := r.dial()
	c.send("LOCK a\r\n")
	c.expect("+OWN\r\n")
	<-entered
	c.send("RESET\r\n")
	within(t, "word of the RESET", told)
	c.send("LOCK a\r\n")
	c.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
	if reply, err := c.r.Peek(1); err == nil {
		t.Errorf("%q came while others were being told of the RESET", reply)
	}
	if len(entered) > 0 {
		t.Error("the LOCK ran while others were being told of the RESET")
	}
	c.SetReadDeadline(time.Now().Add(patience))
	close(goOn)
	c.expect("+RESET\r\n+OWN\r\n")
}

// TestNothingRunsBehindQuit: an upstream that has accepted QUIT closes the connection, if not at
// that moment. Until then no command of ours runs there any more.
func TestNothingRunsBehindQuit(t *testing.T) {
	up, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer up.Close()
	go func() {
		c, err := up.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		lines := bufio.NewScanner(c)
		lines.Scan()
		c.Write([]byte("+OK\r\n"))
		lines.Scan() // of a marker
	}()
	c := startRelay(t, "tcp", up.Addr().String(), nil).dial()
	c.send("QUIT\r\n")
	c.expect("+OK\r\n")
	c.send("LOCK a\r\n")
	c.expectEOF()
}
