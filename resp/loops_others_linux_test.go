package resp

import (
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/tidwall/redcon"
)

// TestAfterBatchWithBegin: the loop reports the end of a batch in which a command was begun, or
// answered.
func TestAfterBatchWithBegin(t *testing.T) {
	network, upstream := startRedis(t)
	var mu sync.Mutex
	var waiting []*started // of the batch
	loops := NewLoops()
	t.Cleanup(loops.Close) // after the server
	loops.AfterBatch(func() {
		mu.Lock()
		all := waiting
		waiting = nil
		mu.Unlock()
		for _, one := range all { // as a master's lane would be written to; here all is answered
			one.answer()
		}
	})
	r := startRelay(t, network, upstream, func(o *Options) {
		o.Loops = loops
		o.Begin = func(conn redcon.Conn, cmd redcon.Command, done func()) bool {
			mu.Lock()
			defer mu.Unlock()
			waiting = append(waiting, &started{conn, string(cmd.Args[1]), done})
			return true
		}
	})
	command, reply := lock("a", "b", "c")
	var clients []*client
	for range 10 {
		clients = append(clients, r.dial())
	}
	for range 100 {
		for _, c := range clients {
			c.send(command)
		}
		for _, c := range clients {
			c.expect(reply)
		}
	}
}

// connectedTo returns both sides of a connection.
func connectedTo(t *testing.T) (accepted net.Conn, other *client) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	other = dialRaw(t, "tcp", ln.Addr().String())
	if accepted, err = ln.Accept(); err != nil {
		t.Fatal(err)
	}
	return accepted, other
}

// TestLoopsForOthers: connections that are not a client's are watched by the same workers.
func TestLoopsForOthers(t *testing.T) {
	loops := NewLoops()
	defer loops.Close()
	accepted, other := connectedTo(t)
	other.send("hello")
	greeting := make([]byte, 3)
	io.ReadFull(accepted, greeting)
	p, ok := loops.Adopt(accepted)
	if !ok {
		t.Fatal("the loops did not take the connection")
	}
	if _, err := io.ReadFull(p, greeting[:1]); err != nil || greeting[0] != 'l' {
		t.Errorf("read %q, %v", greeting[0], err)
	}
	ends := make(chan error, 10)
	var got []byte
	received := func(b []byte) bool {
		if !onLoop() {
			t.Error("received off the loop")
		}
		got = append(got, b...)
		if strings.HasSuffix(string(got), "\n") {
			if n, err := p.TryWrite(got); n != len(got) || err != nil {
				t.Errorf("wrote %d, %v", n, err)
			}
			got = nil
		}
		return strings.HasSuffix(string(got), "stop")
	}
	p.Watch(received, func(err error) { ends <- err })
	NewServer(Options{Loops: loops}).Shutdown(t.Context()) // which leaves them alone
	other.send("\n")
	other.expect("o\n")
	other.send("one\n")
	other.expect("one\n")
	other.send("stop")
	if err := within(t, "end of watching", ends); err != nil {
		t.Errorf("stopped with %v", err)
	}
	p.Watch(received, func(err error) { ends <- err })
	other.send("ped\n")
	other.expect("stopped\n")
	if _, ok := loops.Adopt(p); ok {
		t.Error("adopted twice")
	}
	if err := p.SetLinger(0); err != nil {
		t.Error(err)
	}
	p.Close()
	if err := within(t, "end of watching", ends); !errors.Is(err, net.ErrClosed) || len(ends) > 0 {
		t.Errorf("ended with %v", err)
	}
	if _, err := other.r.ReadByte(); err == nil || err == io.EOF {
		t.Errorf("the other side got %v, want a reset", err)
	}
}
