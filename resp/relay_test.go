package resp

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidwall/redcon"
	"go.uber.org/zap/zaptest"

	"lockproxy/integration/redistest"
)

// patience is how long a test waits for an event on a busy machine.
const patience = time.Minute

// startRedis runs a redis-server for the test and returns how to reach it.
func startRedis(t testing.TB, args ...string) (network, addr string) {
	t.Helper()
	s := redistest.Start(t, args...)
	return s.Network, s.Addr
}

// ownHandler answers a command of ours with its arguments or with the state of the connection: the
// key decides.
type ownHandler struct {
	enter chan string   // receives the key of "wait"
	leave chan struct{} // lets it go on
	lost  chan string   // the key of a reply that could not be delivered
}

func (h *ownHandler) ServeRESP(conn redcon.Conn, cmd redcon.Command) {
	s := SessionOf(conn)
	var key string
	if len(cmd.Args) > 1 {
		key = string(cmd.Args[1])
	}
	switch {
	case key == "panic":
		panic("as told")
	case key == "wait":
		h.enter <- key
		<-h.leave
	}
	s.OnUndelivered(func() { h.lost <- key })
	switch {
	case s.InTransaction():
		conn.WriteError("ERR LOCK is not allowed in transactions")
	case s.Subscribed():
		conn.WriteError("ERR subscribed")
	default:
		conn.WriteBulkString("own:" + key)
	}
}

// relay is a Server in front of a Redis.
type relay struct {
	t       testing.TB
	addr    string
	server  *Server
	handler *ownHandler
}

func startRelay(t testing.TB, network, upstream string, change func(*Options)) *relay {
	t.Helper()
	h := &ownHandler{make(chan string), make(chan struct{}), make(chan string, 100)}
	o := Options{Handler: h, UpstreamName: upstream, Log: zaptest.NewLogger(t),
		Dial: func(ctx context.Context) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, upstream)
		}}
	if change != nil {
		change(&o)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{t, ln.Addr().String(), NewServer(o), h}
	var wg sync.WaitGroup
	wg.Go(func() { r.server.Serve(ln) })
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		r.server.Shutdown(ctx)
		wg.Wait()
	})
	return r
}

// client is a raw connection. Everything fails after patience.
type client struct {
	net.Conn
	t testing.TB
	r *bufio.Reader
}

func (r *relay) dial() *client { return dialRaw(r.t, "tcp", r.addr) }

func dialRaw(t testing.TB, network, addr string) *client {
	t.Helper()
	c, err := net.Dial(network, addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(patience))
	return &client{c, t, bufio.NewReader(c)}
}

func (c *client) send(s string) {
	c.t.Helper()
	if _, err := c.Write([]byte(s)); err != nil {
		c.t.Fatal(err)
	}
}

// expect reads exactly want.
func (c *client) expect(want string) {
	c.t.Helper()
	got := make([]byte, len(want))
	n, err := io.ReadFull(c.r, got)
	if string(got[:n]) != want {
		more, _ := c.r.Peek(c.r.Buffered())
		c.t.Fatalf("got %q %q (%v)\nwant %q", got[:n], more, err, want)
	}
}

// expectEOF wants the other side to have closed, with no more bytes to read.
func (c *client) expectEOF() {
	c.t.Helper()
	if rest, err := io.ReadAll(c.r); err != nil || len(rest) > 0 {
		c.t.Fatalf("got %q, %v; want the end of the connection", rest, err)
	}
}

// TestRepliesInEachState is a transcript for each state that a connection can be in: the request,
// and the reply byte for byte.
func TestRepliesInEachState(t *testing.T) {
	network, addr := startRedis(t)
	r := startRelay(t, network, addr, nil)
	const own = "$5\r\nown:a\r\n"
	for _, tt := range []struct{ name, send, want string }{
		{"alone", "LOCK a 1\r\n", own},
		{"between", "SET k v\r\nLOCK a 1\r\nGET k\r\n", "+OK\r\n" + own + "$1\r\nv\r\n"},
		{"many", strings.Repeat("PING\r\nLOCK a 1\r\n", 50), strings.Repeat("+PONG\r\n"+own, 50)},
		{"RESP array", "*3\r\n$4\r\nlock\r\n$1\r\na\r\n$1\r\n1\r\nPING\r\n", own + "+PONG\r\n"},
		{"MULTI", "MULTI\r\nSET k v\r\nLOCK a 1\r\nEXEC\r\nLOCK a 1\r\n",
			"+OK\r\n+QUEUED\r\n-ERR LOCK is not allowed in transactions\r\n-EXECABORT Transaction discarded because of previous errors.\r\n" + own},
		{"DISCARD", "MULTI\r\nDISCARD\r\nLOCK a 1\r\n", "+OK\r\n+OK\r\n" + own},
		{"EXEC without MULTI", "EXEC\r\nLOCK a 1\r\n", "-ERR EXEC without MULTI\r\n" + own},
		{"WATCH fails", "WATCH k\r\nSET k 1\r\nMULTI\r\nPING\r\nEXEC\r\nLOCK a 1\r\n",
			"+OK\r\n+OK\r\n+OK\r\n+QUEUED\r\n*-1\r\n" + own},
		{"subscribed", "SUBSCRIBE c d\r\nLOCK a 1\r\nUNSUBSCRIBE c\r\nLOCK a 1\r\nUNSUBSCRIBE\r\nLOCK a 1\r\n",
			"*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n*3\r\n$9\r\nsubscribe\r\n$1\r\nd\r\n:2\r\n-ERR subscribed\r\n" +
				"*3\r\n$11\r\nunsubscribe\r\n$1\r\nc\r\n:1\r\n-ERR subscribed\r\n*3\r\n$11\r\nunsubscribe\r\n$1\r\nd\r\n:0\r\n" +
				own},
		{"subscribed in MULTI", "MULTI\r\nSUBSCRIBE c\r\nEXEC\r\nLOCK a 1\r\nRESET\r\nLOCK a 1\r\n",
			"+OK\r\n+QUEUED\r\n*1\r\n*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n-ERR subscribed\r\n+RESET\r\n" + own},
		{"REPLY OFF", "CLIENT REPLY OFF\r\nPING\r\nLOCK a 1\r\nCLIENT REPLY ON\r\nLOCK a 1\r\nPING\r\n",
			"+OK\r\n" + own + "+PONG\r\n"},
		{"REPLY SKIP", "CLIENT REPLY SKIP\r\nLOCK a 1\r\nPING\r\nLOCK a 1\r\n", "+PONG\r\n" + own},
		{"REPLY SKIP other", "CLIENT REPLY SKIP\r\nSET k v\r\nLOCK a 1\r\nGET k\r\n", own + "$1\r\nv\r\n"},
		{"REPLY OFF refused", "CLIENT REPLY OFF x\r\nPING\r\n",
			"-ERR wrong number of arguments for 'client|reply' command\r\n+PONG\r\n"},
		{"REPLY OFF in MULTI", "MULTI\r\nCLIENT REPLY OFF\r\nEXEC\r\nLOCK a 1\r\nCLIENT REPLY ON\r\nPING\r\n",
			"+OK\r\n+QUEUED\r\n*1\r\n+OK\r\n+PONG\r\n"},
		{"REPLY ON", "CLIENT REPLY ON\r\nLOCK a 1\r\n", "+OK\r\n" + own},
		{"RESET ends REPLY OFF", "CLIENT REPLY OFF\r\nRESET\r\nPING\r\n", "+RESET\r\n+PONG\r\n"},
		{"MONITOR", "MONITOR\r\nLOCK a 1\r\n", "+OK\r\n" + own},
		{"ECHO of a LOCK", "*2\r\n$4\r\nECHO\r\n$10\r\nLOCK a 1\r\n\r\nLOCK a 1\r\n", "$10\r\nLOCK a 1\r\n\r\n" + own},
		{"ignored requests", "*0\r\n\r\n*-3\r\nLOCK a 1\r\n*0\r\nPING\r\n", own + "+PONG\r\n"},
		{"trailer", "*1\r\n$4\r\nPINGxxLOCK a 1\r\n", "+PONG\r\n" + own},
		{"HELLO 3", "HELLO 9\r\nLOCK a 1\r\n", "-NOPROTO unsupported protocol version\r\n" + own},
	} {
		t.Run(tt.name, func(t *testing.T) {
			all := r.dial()
			all.t = t
			all.send(tt.send)
			all.expect(tt.want)
			bytewise := r.dial()
			bytewise.t = t
			for i := range len(tt.send) {
				bytewise.send(tt.send[i : i+1])
			}
			bytewise.expect(tt.want)
		})
	}
}

// TestRepliesComeBeforeTheEnd is a transcript for each way that a connection ends: what must have
// come before the end.
func TestRepliesComeBeforeTheEnd(t *testing.T) {
	network, addr := startRedis(t)
	r := startRelay(t, network, addr, nil)
	for _, tt := range []struct{ name, send, want string }{
		{"QUIT", "PING\r\nQUIT\r\nLOCK a 1\r\n", "+PONG\r\n+OK\r\n"},
		{"POST", "POST / HTTP/1.1\r\nLOCK a 1\r\n", ""},
		{"post", "*1\r\n$4\r\npost\r\nLOCK a 1\r\n", ""},
		{"Host", "Host: x\r\nLOCK a 1\r\n", ""},
		{"count", "PING\r\n*1x\r\n", "+PONG\r\n-ERR Protocol error: invalid multibulk length\r\n"},
		{"body", "*1\r\n$-1\r\nLOCK a 1\r\n", "-ERR Protocol error: invalid bulk length\r\n"},
		{"wrap", "*1\r\n$18446744073709551619\r\nabc\r\nLOCK a 1\r\n", "-ERR Protocol error: invalid bulk length\r\n"},
		{"huge", "*1\r\n$9223372036854775807\r\nx\r\n", "-ERR Protocol error: invalid bulk length\r\n"},
		{"huge in LOCK", "*2\r\n$4\r\nLOCK\r\n$9223372036854775807\r\nx\r\n",
			"-ERR Protocol error: invalid bulk length\r\n"},
		{"type in LOCK", "*2\r\n$4\r\nLOCK\r\n:1\r\n", "-ERR Protocol error: expected '$', got ':'\r\n"},
		{"quotes", "\"a\r\nLOCK a 1\r\n", "-ERR Protocol error: unbalanced quotes in request\r\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := r.dial()
			c.t = t
			c.send(tt.send)
			c.expect(tt.want)
			c.expectEOF()
		})
	}
	t.Run("half-close", func(t *testing.T) {
		c := r.dial()
		c.t = t
		c.send("PING\r\nLOCK a 1\r\nPING\r\n")
		c.Conn.(*net.TCPConn).CloseWrite()
		c.expect("+PONG\r\n$5\r\nown:a\r\n+PONG\r\n")
		c.expectEOF()
	})
	t.Run("panic", func(t *testing.T) {
		c := r.dial()
		c.t = t
		c.send("PING\r\nLOCK panic\r\nPING\r\n")
		c.expect("+PONG\r\n-ERR internal\r\n")
		c.expectEOF()
	})
}

// TestPushesGoBetweenOwnReplies puts RESP3 pushes everywhere between our replies.
func TestPushesGoBetweenOwnReplies(t *testing.T) {
	network, addr := startRedis(t)
	r := startRelay(t, network, addr, nil)
	c := r.dial()
	c.send("HELLO 3\r\n")
	skipFrame(t, c.r)
	c.send("SUBSCRIBE c\r\n")
	skipFrame(t, c.r)
	other := dialRaw(t, network, addr)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				other.Write([]byte("PUBLISH c " + strings.Repeat("x", 40000) + "\r\n"))
				other.r.ReadString('\n')
			}
		}
	})
	defer wg.Wait()
	defer close(stop)
	pushes := 0
	for i := range 300 {
		c.send(fmt.Sprintf("PING p%d\r\nLOCK l%d 1\r\n", i, i))
		for _, want := range []string{"p" + strconv.Itoa(i), "own:l" + strconv.Itoa(i)} {
			f := skipFrame(t, c.r)
			for ; f[0] == '>'; f = skipFrame(t, c.r) {
				pushes++
			}
			if !strings.Contains(f, "\r\n"+want+"\r\n") {
				t.Fatalf("reply %q, want %q", f, want)
			}
		}
	}
	if pushes == 0 {
		t.Error("no push came in between")
	}
}

// skipFrame reads one frame of RESP2 or RESP3, however nested, and returns its bytes.
func skipFrame(t testing.TB, r *bufio.Reader) string {
	t.Helper()
	var b strings.Builder
	for left := 1; left > 0; left-- {
		line, err := r.ReadString('\n')
		if err != nil {
			t.Fatalf("frame %q: %v", b.String(), err)
		}
		b.WriteString(line)
		n, _ := strconv.Atoi(strings.TrimSpace(line[1:]))
		switch line[0] {
		case '*', '>', '~':
			left += n
		case '%':
			left += 2 * n
		case '|':
			left += 2*n + 1
		case '$', '=', '!':
			if n >= 0 {
				body := make([]byte, n+2)
				if _, err := io.ReadFull(r, body); err != nil {
					t.Fatal(err)
				}
				b.Write(body)
			}
		}
	}
	return b.String()
}
