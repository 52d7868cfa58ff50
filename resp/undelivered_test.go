package resp

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http/httptest"
	"sync"
	"testing"
	"time"
)

// TestCloseBehindPipeline: requests that a client has sent after a command, before it closed the
// connection, do not confirm the reply, which counts as not delivered.
func TestCloseBehindPipeline(t *testing.T) {
	network, addr := startRedis(t)
	r := startRelay(t, network, addr, nil)
	for _, behind := range []string{"PING\r\n", "LOCK b\r\n", "PING\r\nLOCK b\r\nPING\r\n"} {
		c := r.dial()
		c.send("LOCK wait\r\n" + behind)
		within(t, "command", r.handler.enter)
		c.Close()
		waitInputEnd(t, r.server)
		r.handler.leave <- struct{}{}
		if key := within(t, "word of the lost reply", r.handler.lost); key != "wait" {
			t.Errorf("%q behind it: lost %q first", behind, key)
		}
		waitGone(t, r.server)
		for len(r.handler.lost) > 0 {
			<-r.handler.lost
		}
	}
}

// waitInputEnd returns when the only session has noticed that its client sends no more.
func waitInputEnd(t *testing.T, server *Server) {
	t.Helper()
	server.mu.Lock()
	defer server.mu.Unlock()
	for s := range server.sessions {
		within(t, "end of input", s.ClientClosed())
	}
}

// byteConn reads one byte at a time, so that TLS takes none beyond the record that it needs.
type byteConn struct{ net.Conn }

func (c byteConn) Read(b []byte) (int, error) { return c.Conn.Read(b[:min(1, len(b))]) }

// TestCloseOverTLS: also a client that has closed a TLS connection does not get its reply.
func TestCloseOverTLS(t *testing.T) {
	web := httptest.NewUnstartedServer(nil)
	web.StartTLS() // for its certificate
	defer web.Close()
	h := &ownHandler{make(chan string), make(chan struct{}), make(chan string, 100)}
	server := NewServer(Options{Handler: h, Dial: func(context.Context) (net.Conn, error) {
		return nil, errors.New("no upstream")
	}})
	ln, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: web.TLS.Certificates})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() { server.Serve(ln) })
	defer wg.Wait()
	defer server.Shutdown(t.Context())
	for _, half := range []bool{false, true} {
		raw, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		c := tls.Client(byteConn{raw}, &tls.Config{InsecureSkipVerify: true})
		c.Write([]byte("LOCK wait\r\n"))
		within(t, "command", h.enter)
		if half {
			c.CloseWrite()
		} else {
			c.Close()
		}
		waitInputEnd(t, server)
		h.leave <- struct{}{}
		if !half {
			within(t, "word of the lost reply", h.lost)
			continue
		}
		c.SetDeadline(time.Now().Add(patience))
		got := make([]byte, 14)
		if n, err := c.Read(got); string(got[:n]) != "$8\r\nown:wait\r\n" {
			t.Errorf("after a half-close: %q, %v", got[:n], err)
		}
		if n, err := raw.Read(make([]byte, 100)); n == 0 {
			t.Errorf("the end without close_notify, the end in TLS: %v", err)
		}
		c.Close()
	}
	waitGone(t, server)
	if len(h.lost) > 0 {
		t.Error("a reply that was read counts as lost")
	}
}
