package resp

import (
	"context"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// recorded is an upstream that never answers and records each write. It is no socket, so
// that no loop watches it.
type recorded struct {
	net.Conn // a pipe without a writer
	writes   chan string
	closed   chan struct{}
	once     sync.Once
}

func (r *recorded) Write(b []byte) (int, error) {
	r.writes <- string(b)
	return len(b), nil
}

func (r *recorded) Close() error {
	r.once.Do(func() { close(r.closed) })
	return r.Conn.Close()
}

// TestBrokenRequestsGoOutInOnePiece: the upstream gets a client's piece in one piece, even if the
// requests in it break off. Otherwise the upstream could answer and close before the rest is
// written, which causes a reset, and the answer is lost.
func TestBrokenRequestsGoOutInOnePiece(t *testing.T) {
	const ping, lock, garbage = "*1\r\n$4\r\nPING\r\n", "*3\r\n$4\r\nLOCK\r\n$1\r\na\r\n",
		"garbage\x00\r\n*1\r\n$4\r\nPING\r\n*3\r\n$4\r\nLOCK\r\n"
	for _, tt := range []struct {
		name   string
		pieces []string // up to the last, each ends with bytes that are held back
		held   string   // the bytes of the first that are held back
	}{
		{"in a LOCK", []string{ping + "SET k v\r\n" + lock + ":1\r\n" + garbage}, ""},
		{"in the header of a LOCK's argument", []string{ping + lock + "$x\r\n" + garbage}, ""},
		{"in a LOCK that comes first", []string{lock + ":1\r\n" + garbage}, ""},
		{"behind MULTI", []string{"MULTI\r\n" + ping + lock + "$-5\r\n" + garbage}, ""},
		{"outside", []string{ping + "*1x\r\n" + garbage}, ""},
		{"at the first byte", []string{"\x00" + garbage}, ""},
		{"at the first request", []string{"*1\r\n:1\r\n" + garbage}, ""},
		{"in a LOCK that began before", []string{ping + lock, ":1\r\n" + garbage}, lock},
		{"in a LOCK that began before, in its name", []string{ping + "*2\r\n$4\r\nLO", "CK\r\n:1\r\n" + garbage},
			"*2\r\n$4\r\nLO"},
	} {
		for _, network := range []string{"pipe", "unix"} {
			t.Run(tt.name+" over "+network, func(t *testing.T) {
				playBroken(t, network, tt.pieces, tt.held)
			})
		}
	}
}

// playBroken sends the pieces to a relay, and compares the writes to the upstream, which must not
// get held, the end of the first piece, before the next comes.
func playBroken(t *testing.T, network string, pieces []string, held string) {
	upstream, far := net.Pipe()
	rec := &recorded{Conn: upstream, writes: make(chan string, 100), closed: make(chan struct{})}
	server := NewServer(Options{UpstreamName: "recorded",
		Dial: func(context.Context) (net.Conn, error) { return rec, nil }})
	ln, client := listenAndDial(t, network)
	var wg sync.WaitGroup
	wg.Go(func() { server.Serve(ln) })
	want := ""
	for i, piece := range pieces {
		want += piece
		client.SetDeadline(time.Now().Add(patience))
		if _, err := client.Write([]byte(piece)); err != nil {
			t.Fatal(err)
		}
		due := len(want)
		if i < len(pieces)-1 {
			due -= len(held)
		}
		rec.expect(t, want[:due], i == 0)
		want = want[due:]
	}
	far.Close()
	client.Close()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	server.Shutdown(ctx)
	wg.Wait()
	if want != "" || len(rec.writes) > 0 {
		t.Errorf("not written %q, written besides in %d pieces", want, len(rec.writes))
	}
}

// expect reads writes until they have all bytes that are due. whole: the first must have them all.
func (r *recorded) expect(t *testing.T, due string, whole bool) {
	t.Helper()
	for first := true; first || due != ""; first = false {
		next := within(t, "write to the upstream: "+due, r.writes)
		if first && whole && next != due {
			t.Errorf("the first write has %d bytes of %d: %q", len(next), len(due), next)
		}
		if !strings.HasPrefix(due, next) {
			t.Fatalf("the upstream gets %q, want %q", next, due)
		}
		due = due[len(next):]
	}
}

// listenAndDial returns a listener and the other side of the connection that it accepts. A loop
// can watch a Unix socket, and no pipe.
func listenAndDial(t *testing.T, network string) (net.Listener, net.Conn) {
	t.Helper()
	if network == "pipe" {
		near, far := net.Pipe()
		return &oneConn{conns: make(chan net.Conn), first: far}, near
	}
	ln, err := net.Listen(network, filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	client, err := net.Dial(network, ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return ln, client
}
