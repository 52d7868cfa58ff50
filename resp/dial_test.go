package resp

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/resp/internal/netpoll"
)

// TestUpstreamUnreachable: each command gets the error, lock commands still run, and the next
// command dials again.
func TestUpstreamUnreachable(t *testing.T) {
	network, addr := startRedis(t)
	var down atomic.Bool
	down.Store(true)
	r := startRelay(t, network, addr, func(o *Options) {
		dial := o.Dial
		o.UpstreamName = "10.0.0.1:6379"
		o.DialReason = func(error) string { return "connection refused" }
		o.Dial = func(ctx context.Context) (net.Conn, error) {
			if down.Load() {
				return nil, &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
			}
			return dial(ctx)
		}
	})
	const refused = "-ERR upstream 10.0.0.1:6379: connection refused\r\n"
	c := r.dial()
	c.send("PING\r\nLOCK a 1\r\nSET k " + strings.Repeat("v", 50000) + "\r\nMULTI\r\nLOCK b 1\r\n")
	c.expect(refused + "$5\r\nown:a\r\n" + refused + refused + "$5\r\nown:b\r\n")
	quits := r.dial()
	quits.send("QUIT\r\nPING\r\n")
	quits.expect("+OK\r\n")
	quits.expectEOF()
	wrong := r.dial()
	wrong.send("PING\r\n*1x\r\n")
	wrong.expect(refused + "-ERR Protocol error: invalid multibulk length\r\n")
	wrong.expectEOF()
	down.Store(false)
	c.send("PING\r\n")
	c.expect("+PONG\r\n")
}

// TestFailedDialIsNotRepeatedAtOnce: not each request dials while the upstream cannot be reached.
func TestFailedDialIsNotRepeatedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dials, takes := 0, time.Duration(0)
		s := NewServer(Options{UpstreamName: "x", Dial: func(context.Context) (net.Conn, error) {
			dials++
			time.Sleep(takes)
			return nil, errors.New("refused")
		}})
		count := func(what string, want int) {
			t.Helper()
			dials = 0
			for start := time.Now(); time.Since(start) < 10*time.Second; time.Sleep(5 * time.Millisecond) {
				if _, err := s.dial(t.Context()); err == nil || err.Error() != "refused" {
					t.Fatalf("%s: got %v", what, err)
				}
			}
			if dials != want {
				t.Errorf("%s: %d dials in 10s, want %d", what, dials, want)
			}
		}
		count("refused at once", 501)
		takes = 5 * time.Second
		count("no answer", 2)
	})
}

// TestMalformedAfterBrokenFrames: bytes that are no requests reach the upstream, and its end ends
// the connection, even if the upstream's frame boundaries are lost.
func TestMalformedAfterBrokenFrames(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go func() {
		c, err := ln.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		r := bufio.NewReader(c)
		skipFrame(t, r)
		io.WriteString(c, "$x\r\n")
		if line, err := r.ReadString('\n'); line != "*1x\r\n" {
			t.Errorf("the upstream got %q %v", line, err)
		}
	}()
	r := startRelay(t, "tcp", ln.Addr().String(), nil)
	c := r.dial()
	c.send("PING\r\n")
	c.expect("$x\r\n")
	c.send("*1x\r\n")
	c.expectEOF() // there is no place for a reply of ours
}

// TestLastWordsWhileReadAhead: the upstream takes no more while a command of ours waits for its
// turn, and then closes. The client, which is read ahead in between, gets the upstream's last
// reply and the end, and may still write.
func TestLastWordsWhileReadAhead(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	r := startRelay(t, "tcp", ln.Addr().String(), nil)
	c := r.dial()
	c.send("MONITOR\r\n")
	upstream, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer upstream.Close()
	if line, err := bufio.NewReader(upstream).ReadString('\n'); line != "MONITOR\r\n" {
		t.Fatalf("upstream got %q, %v", line, err)
	}
	s := only(t, r.server)
	up, _ := s.up.get()
	if err := netpoll.CloseWrite(up); err != nil {
		t.Fatal(err)
	}
	c.send("LOCK a 1\r\n")
	eventually(t, "the client is read ahead", func() bool {
		s.in.ahead.mu.Lock()
		defer s.in.ahead.mu.Unlock()
		return s.in.ahead.done != nil
	})
	if _, err := io.WriteString(upstream, "+OK\r\n"); err != nil {
		t.Fatal(err)
	}
	closed := time.Now()
	upstream.Close()
	c.expect("+OK\r\n")
	c.expectEOF()
	// This is more than the sockets' buffers hold: the relay reads it, for lingerTime at most.
	if _, err := io.WriteString(c, strings.Repeat("x", 12<<20)); err != nil && time.Since(closed) < lingerTime {
		t.Error(err)
	}
	c.Close()
	for deadline := time.Now().Add(patience); r.server.Connections() > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the connection does not end")
		}
	}
}

// only returns the one session that there is. It waits for it: a client may connect and send
// before the server has accepted it.
func only(t *testing.T, s *Server) *Session {
	t.Helper()
	var first *Session
	eventually(t, "a session", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		for sess := range s.sessions {
			first = sess
		}
		return first != nil
	})
	return first
}
