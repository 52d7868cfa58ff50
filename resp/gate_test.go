package resp

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidwall/redcon"
	"go.uber.org/zap/zaptest"
)

// startGated starts a relay with a gate: for clients that a loop watches, or for the others.
func startGated(t *testing.T, network, upstream string, watched bool, change func(*Options)) *relay {
	t.Helper()
	handler := redcon.HandlerFunc(gatedHandler)
	o := Options{Handler: handler, Begin: beginSome(handler), Judge: judgeKeys, UpstreamName: upstream,
		Log: zaptest.NewLogger(t), Dial: func(ctx context.Context) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, upstream)
		}}
	if change != nil {
		change(&o)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{t: t, addr: ln.Addr().String(), server: NewServer(o)}
	if !watched {
		ln = unwatched{ln}
	}
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

// eachWay runs a test for clients that a loop watches, and for the others.
func eachWay(t *testing.T, test func(t *testing.T, watched bool)) {
	t.Run("on a loop", func(t *testing.T) { test(t, true) })
	t.Run("on a goroutine", func(t *testing.T) { test(t, false) })
}

// Replies to GET lock:a.
const (
	ownGet   = "+get \"lock:a\" 2 arguments, cut false, RESP3 false\r\n"
	ownGet3  = "+get \"lock:a\" 2 arguments, cut false, RESP3 true\r\n"
	ownInTx  = "-ERR LOCK is not allowed in transactions\r\n"
	aborted  = "-EXECABORT Transaction discarded because of previous errors.\r\n"
	badBytes = "-ERR Protocol error: "
)

// gateStates are transcripts: requests and the replies.
var gateStates = []struct{ name, send, want string }{
	{"alone", "GET lock:a\r\n", ownGet},
	{"between", "SET k v\r\nGET lock:a\r\nGET k\r\n", "+OK\r\n" + ownGet + "$1\r\nv\r\n"},
	{"many", strings.Repeat("PING\r\nGET lock:a\r\n", 50), strings.Repeat("+PONG\r\n"+ownGet, 50)},
	{"RESP array", "*2\r\n$3\r\nGeT\r\n$6\r\nlock:a\r\nPING\r\n", ownGet + "+PONG\r\n"},
	{"later key", "MSET k 1 lock:a 2\r\nMSET k 3 l 4\r\n", "+mset \"k\" 5 arguments, cut false, RESP3 false\r\n+OK\r\n"},
	{"MULTI", "MULTI\r\nSET k v\r\nGET lock:a\r\nEXEC\r\nGET lock:a\r\n",
		"+OK\r\n+QUEUED\r\n" + ownInTx + aborted + ownGet},
	{"MULTI, twice", "MULTI\r\nGET lock:a\r\nGET lock:a\r\nPING\r\nEXEC\r\n",
		"+OK\r\n" + ownInTx + ownInTx + "+QUEUED\r\n" + aborted},
	{"DISCARD", "MULTI\r\nDISCARD\r\nGET lock:a\r\n", "+OK\r\n+OK\r\n" + ownGet},
	{"subscribed", "SUBSCRIBE lock:c\r\nGET lock:a\r\nUNSUBSCRIBE\r\nGET lock:a\r\n",
		"*3\r\n$9\r\nsubscribe\r\n$6\r\nlock:c\r\n:1\r\n-ERR subscribed\r\n" +
			"*3\r\n$11\r\nunsubscribe\r\n$6\r\nlock:c\r\n:0\r\n" + ownGet},
	{"REPLY OFF",
		"CLIENT REPLY OFF\r\nSET k v\r\nSET lock:a 1\r\nSET lock:a 2\r\nCLIENT REPLY ON\r\nGET lock:a\r\nGET k\r\n",
		"+OK\r\n" + ownGet + "$1\r\nv\r\n"},
	{"REPLY OFF and MULTI", "SET k v\r\nCLIENT REPLY OFF\r\nGET lock:a\r\nMULTI\r\nSET k w\r\nSET lock:a 1\r\nEXEC\r\n" +
		"CLIENT REPLY ON\r\nGET k\r\n", "+OK\r\n+OK\r\n$1\r\nv\r\n"},
	{"REPLY SKIP", "CLIENT REPLY SKIP\r\nSET lock:a 1\r\nPING\r\nGET lock:a\r\n", "+PONG\r\n" + ownGet},
	{"REPLY SKIP other", "CLIENT REPLY SKIP\r\nSET k v\r\nGET lock:a\r\nGET k\r\n", ownGet + "$1\r\nv\r\n"},
	{"MONITOR", "MONITOR\r\nGET lock:a\r\n", "+OK\r\n" + ownGet},
	{"RESET", "MULTI\r\nRESET\r\nGET lock:a\r\n", "+OK\r\n+RESET\r\n" + ownGet},
	{"ECHO of a lock key", "*2\r\n$4\r\nECHO\r\n$12\r\nGET lock:a\r\n\r\nGET lock:a\r\n",
		"$12\r\nGET lock:a\r\n\r\n" + ownGet},
	{"ignored requests", "*0\r\n\r\n*-3\r\nGET lock:a\r\n \r\n*0\r\nPING\r\n", ownGet + "+PONG\r\n"},
	{"trailer", "*1\r\n$4\r\nPINGxxGET lock:a\r\n", "+PONG\r\n" + ownGet},
	{"no HELLO 3", "HELLO 9\r\nGET lock:a\r\n", "-NOPROTO unsupported protocol version\r\n" + ownGet},
	{"quotes", "get \"lock\\x3aa\"\r\n", ownGet},
	{"lock command", "LOCK a 1\r\n", "+lock \"a\" 3 arguments, cut false, RESP3 false\r\n"},
	{"long script", "*4\r\n$4\r\nEVAL\r\n$70000\r\n" + strings.Repeat("s", 70_000) + "\r\n$1\r\n1\r\n$1\r\na\r\nPING\r\n",
		"+eval \"ssssssssssssssssssss\" 4 arguments, cut true, RESP3 false\r\n+PONG\r\n"},
}

// TestGateStates is a transcript for each state that a connection can be in when a request on a
// lock key comes.
func TestGateStates(t *testing.T) {
	network, addr := startRedis(t)
	eachWay(t, func(t *testing.T, watched bool) {
		r := startGated(t, network, addr, watched, nil)
		for _, tt := range gateStates {
			t.Run(tt.name, func(t *testing.T) { r.play(t, tt.send, tt.want) })
		}
		t.Run("RESP3", func(t *testing.T) {
			c := r.dial()
			c.t = t
			c.send("HELLO 3\r\nGET lock:a\r\nSUBSCRIBE c\r\nGET lock:a\r\nHELLO 2\r\n")
			skipFrame(t, c.r)
			c.expect(ownGet3 + ">3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n" + ownGet3)
		})
		c := dialRaw(t, network, addr)
		c.send("KEYS lock:*\r\n")
		c.expect("*0\r\n")
	})
}

// play sends requests at once, and on another connection byte by byte.
func (r *relay) play(t *testing.T, send, want string) {
	all := r.dial()
	all.t = t
	all.send(send)
	all.expect(want)
	if len(send) > 1000 {
		return
	}
	bytewise := r.dial()
	bytewise.t = t
	for i := range len(send) {
		bytewise.send(send[i : i+1])
	}
	bytewise.expect(want)
}

// TestGateEnds is a transcript for each way in which a connection ends.
func TestGateEnds(t *testing.T) {
	network, addr := startRedis(t)
	eachWay(t, func(t *testing.T, watched bool) {
		r := startGated(t, network, addr, watched, nil)
		for _, tt := range []struct{ name, send, want string }{
			{"QUIT", "PING\r\nQUIT\r\nGET lock:a\r\n", "+PONG\r\n+OK\r\n"},
			{"QUIT behind a lock key", "PING\r\nGET lock:a\r\nQUIT\r\nGET lock:a\r\n", "+PONG\r\n" + ownGet + "+OK\r\n"},
			{"POST", "PING\r\nPOST / HTTP/1.1\r\nGET lock:a\r\n", "+PONG\r\n"},
			{"count", "PING\r\n*1x\r\n", "+PONG\r\n" + badBytes + "invalid multibulk length\r\n"},
			{"too many", "GET lock:a\r\n*2147483648\r\n", ownGet + badBytes + "invalid multibulk length\r\n"},
			{"first of all", "*1\r\n$-1\r\nGET lock:a\r\n", badBytes + "invalid bulk length\r\n"},
			{"in a request on a lock key", "PING\r\n*3\r\n$3\r\nSET\r\n$6\r\nlock:a\r\n:1\r\n",
				"+PONG\r\n" + badBytes + "expected '$', got ':'\r\n"},
			{"in a request of which the upstream has a part", "PING\r\n*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$536870911\r\n",
				"+PONG\r\n"},
			{"long line", strings.Repeat("a", 70_000), badBytes + "too big inline request\r\n"},
			{"quotes", "\"a\r\nGET lock:a\r\n", badBytes + "unbalanced quotes in request\r\n"},
			{"in MULTI", "MULTI\r\nPING\r\n*x\r\n", "+OK\r\n+QUEUED\r\n" + badBytes + "invalid multibulk length\r\n"},
			{"replies are off", "PING\r\nCLIENT REPLY OFF\r\nPING\r\n*x\r\n", "+PONG\r\n"},
			{"end of input in a request", "PING\r\n*2\r\n$3\r\nGET\r\n$6\r\nlock:", "+PONG\r\n"},
			{"end of input in a line", "PING\r\nSET lock:a", "+PONG\r\n"},
		} {
			t.Run(tt.name, func(t *testing.T) {
				c := r.dial()
				c.t = t
				c.send(tt.send)
				c.expect(tt.want)
				if !strings.Contains(tt.want, "QUIT") && !strings.Contains(tt.want, badBytes) {
					c.Conn.(*net.TCPConn).CloseWrite()
				}
				c.expectEOF()
			})
		}
		t.Run("broken off after a part was forwarded", func(t *testing.T) {
			c := r.dial()
			c.t = t
			first := "BLPOP none 0.2\r\n*3\r\n$3\r\nSET\r\n$1\r\nk\r\n"
			before := r.server.Stats().Received
			c.send(first)
			eventually(t, "the first part is read",
				func() bool { return r.server.Stats().Received >= before+uint64(len(first)) })
			c.send(":1\r\nGET lock:a\r\n")
			c.expect("*-1\r\n" + badBytes + "expected '$', got ':'\r\n")
			c.expectEOF()
		})
		c := dialRaw(t, network, addr)
		c.send("KEYS lock:*\r\n")
		c.expect("*0\r\n")
	})
}

// TestGateSlowClient: a client that does not finish a request that is held back is disconnected.
func TestGateSlowClient(t *testing.T) {
	for _, tt := range []struct {
		name, send string // a byte of it each second
		ends       bool
	}{
		{"held back", "*2\r\n$3\r\nGET\r\n$6\r\nlock:aaaaaaaaaaaaa", true},
		{"taken", "*2\r\n$3\r\nGET\r\n$60\r\nlock:aaaaaaaaaaaaa", true},
		{"a line", "GET lock:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", true},
		{"whole requests", strings.Repeat("\n", 30), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := paced(t, func(o *Options) { o.Judge = judgeKeys })
				start := time.Now()
				for i := range 30 {
					c.SetWriteDeadline(time.Now().Add(time.Millisecond))
					if _, err := io.WriteString(c, tt.send[i:i+1]); err != nil {
						break
					}
					time.Sleep(time.Second)
				}
				if took := time.Since(start); tt.ends != (took <= 20*time.Second) || took < 8*time.Second {
					t.Errorf("alive for %v, of 30s", took)
				}
			})
		})
	}
}

// TestGateLongValue: a value passes before it is whole.
func TestGateLongValue(t *testing.T) {
	network, addr := startRedis(t)
	eachWay(t, func(t *testing.T, watched bool) {
		r := startGated(t, network, addr, watched, nil)
		c := r.dial()
		c.t = t
		const size, piece = 32 << 20, 1 << 20
		c.send(fmt.Sprintf("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$%d\r\n", size))
		before := liveHeap()
		for range size / piece {
			c.send(strings.Repeat("v", piece))
		}
		if grown := liveHeap() - before; grown > 8<<20 {
			t.Errorf("%d bytes more are in use while a value passes", grown)
		}
		c.send("\r\nSTRLEN k\r\n")
		c.expect(fmt.Sprintf("+OK\r\n:%d\r\n", size))
	})
}
