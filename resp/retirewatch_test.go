package resp

import (
	"context"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/tidwall/redcon"
)

// TestLeavingWhileRetired: a client that leaves while its command waits is noticed, also while the
// server wakes the connection again and again as its upstream was replaced.
func TestLeavingWhileRetired(t *testing.T) {
	network, addr := startRedis(t)
	entered := make(chan *Session, 1)
	noticed := make(chan bool, 1)
	r := startRelay(t, network, addr, func(o *Options) {
		o.Handler = redcon.HandlerFunc(func(conn redcon.Conn, cmd redcon.Command) {
			s := SessionOf(conn)
			entered <- s
			select {
			case <-s.ClientClosed():
				noticed <- true
			case <-time.After(time.Minute):
				noticed <- false
			}
			conn.WriteNull()
		})
	})
	c := r.dial()
	c.send("PING\r\n")
	c.expect("+PONG\r\n")
	c.send("LOCK k 1000\r\n")
	s := <-entered
	eventually(t, "reading ahead", func() bool {
		s.in.ahead.mu.Lock()
		defer s.in.ahead.mu.Unlock()
		return s.in.ahead.done != nil
	})
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	go r.server.Retire(ctx)
	eventually(t, "the wake-up of Retire", s.life.draining)
	c.Close()
	if !<-noticed {
		t.Error("the handler was not told")
	}
}

// TestShutdownStorm, with -race: many connections are cut off; no goroutine starts after the end.
func TestShutdownStorm(t *testing.T) {
	network, addr := startRedis(t)
	sends := []string{
		"PING\r\nLOCK k 1000\r\nAUTH x y\r\nLOCK k 1000\r\n", "BLPOP none 0\r\n",
		"LOCK k 1000\r\nMONITOR\r\nLOCK k 1000\r\n",
	}
	for range 60 {
		s := NewServer(Options{Handler: redcon.HandlerFunc(func(c redcon.Conn, _ redcon.Command) { c.WriteNull() }),
			Dial: func(ctx context.Context) (net.Conn, error) { return new(net.Dialer).DialContext(ctx, network, addr) }})
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		served := make(chan struct{})
		go func() { defer close(served); s.Serve(ln) }()
		var wg sync.WaitGroup
		for i := range 30 {
			wg.Go(func() {
				c, err := net.Dial("tcp", ln.Addr().String())
				if err != nil {
					return
				}
				defer c.Close()
				c.SetDeadline(time.Now().Add(patience))
				b := make([]byte, 100)
				for err := error(nil); err == nil; {
					io.WriteString(c, sends[i%len(sends)])
					_, err = c.Read(b)
				}
			})
		}
		time.Sleep(20 * time.Millisecond)
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Millisecond)
		s.Shutdown(ctx)
		cancel()
		<-served
		wg.Wait()
	}
}

// TestPushesWhileRepliesAreOff: pushes of RESP3 come also while CLIENT REPLY OFF holds. They are
// no sign that a question will be answered.
func TestPushesWhileRepliesAreOff(t *testing.T) {
	network, addr := startRedis(t)
	r := startRelay(t, network, addr, nil)
	other, c := dialRaw(t, network, addr), r.dial()
	c.send("HELLO 3\r\nSUBSCRIBE ch\r\n")
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(100 * time.Millisecond):
				other.Write([]byte("PUBLISH ch m\r\n"))
			}
		}
	}()
	c.send("CLIENT REPLY OFF\r\nLOCK k 1000\r\nCLIENT REPLY ON\r\nECHO behind\r\n")
	c.SetReadDeadline(time.Now().Add(patience))
	for {
		line, err := c.r.ReadString('\n')
		if err != nil {
			t.Fatalf("what is behind LOCK was not answered: %v", err)
		}
		if line == "behind\r\n" {
			return
		}
	}
}
