package resp

import (
	"context"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidwall/redcon"
)

// TestPaceTellsSlowClients: whose client is slow, looked at eight times in a timeout of 8 s.
func TestPaceTellsSlowClients(t *testing.T) {
	const timeout, step = 8 * time.Second, time.Second
	for _, tt := range []struct {
		name string
		do   func(p *progress, i int) (queued int, taken uint64) // each time the watch looks, the i-th
		want time.Duration                                       // when it is found to be slow; 0: never
	}{
		{"idle", func(p *progress, i int) (int, uint64) { return 0, 0 }, 0},
		{"takes nothing", func(p *progress, i int) (int, uint64) { return 100, 7 }, timeout + step},
		{"takes nothing, and more is written first", func(p *progress, i int) (int, uint64) {
			p.written.Store(uint64(min(i, 5)))
			return 100, 7
		}, timeout + 5*step},
		{"a write hangs", func(p *progress, i int) (int, uint64) { p.writing.Store(true); return 0, 0 }, timeout + step},
		{"takes a byte now and then", func(p *progress, i int) (int, uint64) { return 100, uint64(i / 5) }, 0},
		{"takes from a Unix socket", func(p *progress, i int) (int, uint64) { return 100 - i/5, 0 }, 0},
		{"takes as much as is written", func(p *progress, i int) (int, uint64) { p.written.Add(10); return 100, 0 }, 0},
		{"had nothing to take meanwhile", func(p *progress, i int) (int, uint64) { return 100 * (i % 5), 0 }, 0},
		{"waits for a reply", func(p *progress, i int) (int, uint64) { p.busy(); return 0, 0 }, 0},
		{"one byte now and then", func(p *progress, i int) (int, uint64) { p.await(3, true); p.read.Add(1); return 0, 0 },
			timeout + step},
		{"a large value", func(p *progress, i int) (int, uint64) {
			p.await(3, true)
			p.read.Add(slowBytes / 4)
			return 0, 0
		}, 0},
		{"small commands in pieces", func(p *progress, i int) (int, uint64) {
			p.await(uint64(i/5), true)
			p.read.Add(1)
			return 0, 0
		}, 0},
		{"the upstream is slow", func(p *progress, i int) (int, uint64) {
			if p.await(3, true); i%5 == 0 {
				p.busy()
			}
			return 0, 0
		}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var p progress
			start := time.Unix(1000, 0)
			got := time.Duration(0)
			for i := 1; i < 100 && got == 0; i++ {
				queued, taken := tt.do(&p, i)
				if now := start.Add(time.Duration(i) * step); p.slow(queued, taken, now, timeout) != "" {
					got = now.Sub(start)
				}
			}
			if got != tt.want {
				t.Errorf("slow after %v, want %v", got, tt.want)
			}
		})
	}
}

// paced serves a client in a bubble, with a timeout of 8 s and an upstream that answers GET alone.
// change may change its options. It returns the client's end.
func paced(t *testing.T, change func(*Options)) net.Conn {
	own := redcon.HandlerFunc(func(c redcon.Conn, _ redcon.Command) {
		time.Sleep(time.Second)
		c.WriteString("OK")
	})
	o := Options{Handler: own, UpstreamName: "x", SlowClientTimeout: 8 * time.Second,
		Dial: func(context.Context) (net.Conn, error) {
			near, far := net.Pipe()
			go func() {
				defer far.Close()
				for one := make([]byte, 1); ; {
					if _, err := far.Read(one); err != nil {
						return
					}
					if one[0] == 'G' {
						io.WriteString(far, "$1\r\nx\r\n")
					}
				}
			}()
			return near, nil
		}}
	change(&o)
	s := NewServer(o)
	near, far := net.Pipe()
	ended := make(chan struct{})
	go func() { s.Serve(&oneConn{conns: make(chan net.Conn), first: far}); close(ended) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		near.Close()
		s.Shutdown(ctx)
		<-ended
	})
	return near
}

// oneConn is a listener with one connection.
type oneConn struct {
	first net.Conn
	conns chan net.Conn
}

func (l *oneConn) Accept() (net.Conn, error) {
	if c := l.first; c != nil {
		l.first = nil
		return c, nil
	}
	<-l.conns
	return nil, net.ErrClosed
}
func (l *oneConn) Close() error   { close(l.conns); return nil }
func (l *oneConn) Addr() net.Addr { return &net.UnixAddr{Name: "bubble", Net: "unix"} }

// TestSlowClients: each is disconnected when its time has passed, and no other client.
func TestSlowClients(t *testing.T) {
	lives := func(c net.Conn) bool {
		c.SetWriteDeadline(time.Now().Add(time.Millisecond))
		_, err := c.Write(nil)
		return err == nil || os.IsTimeout(err)
	}
	for _, tt := range []struct {
		name string
		do   func(c net.Conn, i int) // once a second
		ends bool
	}{
		{"idle", func(net.Conn, int) {}, false},
		{"one byte at a time", func(c net.Conn, _ int) { io.WriteString(c, "P") }, true},
		{"one digit at a time", func(c net.Conn, i int) {
			io.WriteString(c,
				"*2\r\n$3\r\nSET\r\n$00000000000000000000"[i:i+1])
		}, true},
		{"whole commands", func(c net.Conn, _ int) { io.WriteString(c, "P\r\n") }, false},
		{"waits for a reply", func(c net.Conn, i int) {
			if i == 0 {
				io.WriteString(c, "BLPOP q 0\r\n")
			}
		}, false},
		{"a command begun behind a LOCK", func(c net.Conn, i int) {
			if i == 0 {
				io.WriteString(c, "LOCK a\r\n*2\r\n$4\r\nEC")
				go io.ReadFull(c, make([]byte, 5))
			}
		}, true},
		{"a LOCK that runs", func(c net.Conn, i int) {
			if i == 0 {
				io.WriteString(c, "LOCK a\r\n")
				go io.ReadFull(c, make([]byte, 5))
			}
		}, false},
		{"takes no reply", func(c net.Conn, i int) {
			if i == 0 {
				io.WriteString(c, "GET\r\n")
			}
		}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := paced(t, func(*Options) {})
				start := time.Now()
				for i := 0; lives(c) && i < 30; i++ {
					tt.do(c, i)
					time.Sleep(time.Second)
				}
				took := time.Since(start) // in the bubble; a look may come just before a byte that counts: twice the time at most
				if tt.ends != (took <= 20*time.Second) || took < 8*time.Second {
					t.Errorf("alive for %v, of 30s", took)
				}
			})
		})
	}
}

// TestSlowlySentIsCountedOnce: a client that sends an inline command byte by byte, which is held
// back until it is whole, sends as much as it does.
func TestSlowlySentIsCountedOnce(t *testing.T) {
	network, upstream := startRedis(t)
	r := startRelay(t, network, upstream, nil)
	c := r.dial()
	for i := range uint64(100) {
		c.send(" ")
		want := Stats{Clients: 1, Accepted: 1, Received: i + 1}
		until(t, want, r.server.Stats)
	}
	c.send("PING\r\n")
	c.expect("+PONG\r\n")
}
