package resp

import (
	"net"
	"strings"
	"testing"

	"github.com/tidwall/redcon"
)

// TestEndByClient: the function of OnEnd learns that the client ended the connection, even if a
// lock command delays that, or if a reply that cannot be written is the first sign.
func TestEndByClient(t *testing.T) {
	network, addr := startRedis(t)
	ends, enter := make(chan End, 10), make(chan struct{}, 10)
	r := startRelay(t, network, addr, func(o *Options) {
		o.Handler = redcon.HandlerFunc(func(conn redcon.Conn, cmd redcon.Command) {
			s := SessionOf(conn)
			if string(cmd.Args[1]) == "wait" {
				enter <- struct{}{}
				<-s.ClientClosed()
			} else {
				s.OnEnd(func(how End) { ends <- how })
			}
			conn.WriteString("OK")
		})
	})
	reset := func(c *client) {
		c.Conn.(*net.TCPConn).SetLinger(0)
		c.Close()
	}
	for _, tt := range []struct {
		name, send string
		end        func(*client)
		want       End
	}{
		{"RST while a command waits", "LOCK wait\r\n", reset, EndClient},
		{"RST while a command waits, more behind it", "LOCK wait\r\nLOCK b\r\nPING\r\n", reset, EndClient},
		{"close while a command waits", "LOCK wait\r\n", func(c *client) { c.Close() }, EndClient},
		{"close while a command waits, more behind it", "LOCK wait\r\nLOCK wait\r\nLOCK wait\r\nPING\r\n",
			func(c *client) { c.Close() }, EndClient},
		{"close behind BLPOP and a command", "BLPOP q 0\r\nLOCK b\r\n", func(c *client) { c.Close() }, EndClient},
		{"half-close behind BLPOP and a command", "BLPOP q 0\r\nLOCK b\r\n",
			func(c *client) { c.Conn.(*net.TCPConn).CloseWrite() }, EndClient},
		{"QUIT and close", "QUIT\r\n", func(c *client) { c.Close() }, EndQuit},
		{"QUIT and RST", "PING\r\nQUIT\r\n", reset, EndQuit},
		{"QUIT behind a command, close", "LOCK b\r\nQUIT\r\n", func(c *client) { c.Close() }, EndQuit},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for range 4 {
				c := r.dial()
				c.send("LOCK a\r\n")
				c.expect("+OK\r\n")
				c.send(tt.send)
				if strings.HasPrefix(tt.send, "LOCK wait") {
					within(t, "command", enter)
				}
				if strings.Contains(tt.send, "QUIT") { // a reset overtakes bytes that were not read yet
					c.r.Peek(1)
				}
				tt.end(c)
				if got := within(t, "end", ends); got != tt.want {
					t.Errorf("got %d, want %d", got, tt.want)
				}
				eventually(t, "the end of the connection", func() bool { return r.server.Connections() == 0 })
				drainAll(ends)
				drainAll(enter)
			}
		})
	}
}

// drainAll takes the values that are in ch.
func drainAll[T any](ch <-chan T) {
	for len(ch) > 0 {
		<-ch
	}
}
