package embedded

import (
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"lockproxy/integration/redistest"
)

// requestCase is bytes that a client sends, and the answer to them.
type requestCase struct {
	name, send, want string
	closed           bool // the server then closes the connection
}

// requestCases have the answers of Redis 7.0.15.
var requestCases = []requestCase{
	{"inline", "PING\r\n", "+PONG\r\n", false},
	{"inline with LF", "PING\n", "+PONG\r\n", false},
	{"inline with blanks", "\tPING  \"hi\" \r\n", "$2\r\nhi\r\n", false},
	{"double quotes", "ECHO \"\\x41 b\\n\"\r\n", "$4\r\nA b\n\r\n", false},
	{"single quotes", "ECHO 'a\\'b'\r\n", "$3\r\na'b\r\n", false},
	{"zero byte in quotes", "ECHO \"\\x00\"\r\n", "$1\r\n\x00\r\n", false},
	{"empty lines", "\r\n\n  \r\n\t\nPING\r\n", "+PONG\r\n", false},
	{"empty requests", "*0\r\n*-1\r\n*-5\r\nPING\r\n", "+PONG\r\n", false},
	{"odd line ends", "*1\rX$4\rYPINGzzPING\r\n", "+PONG\r\n+PONG\r\n", false},
	{"empty argument", "*2\r\n$4\r\nECHO\r\n$0\r\n\r\n", "$0\r\n\r\n", false},
	{"both forms", "*2\r\n$4\r\nECHO\r\n$2\r\n\r\n\r\nPING\r\n*1\r\n$4\r\nping\r\n",
		"$2\r\n\r\n\r\n+PONG\r\n+PONG\r\n", false},

	{"open quote", "\"a\r\n", "-ERR Protocol error: unbalanced quotes in request\r\n", true},
	{"text after a quote", "'a'b\r\n", "-ERR Protocol error: unbalanced quotes in request\r\n", true},
	{"line without end", strings.Repeat("x", 64<<10+1), "-ERR Protocol error: too big inline request\r\n", true},
	{"count with a letter", "*1x\r\n", "-ERR Protocol error: invalid multibulk length\r\n", true},
	{"no count", "*\r\n", "-ERR Protocol error: invalid multibulk length\r\n", true},
	{"count with a blank", "* 1\r\n", "-ERR Protocol error: invalid multibulk length\r\n", true},
	{"count with a plus", "*+1\r\n", "-ERR Protocol error: invalid multibulk length\r\n", true},
	{"count with a zero", "*01\r\n", "-ERR Protocol error: invalid multibulk length\r\n", true},
	{"count of 32 bits", "*2147483648\r\n", "-ERR Protocol error: invalid multibulk length\r\n", true},
	{"count of 70 bits", "*999999999999999999999\r\n", "-ERR Protocol error: invalid multibulk length\r\n", true},
	{"no dollar", "*1\r\n:4\r\n", "-ERR Protocol error: expected '$', got ':'\r\n", true},
	{"size -1", "*1\r\n$-1\r\n", "-ERR Protocol error: invalid bulk length\r\n", true},
	{"size with a letter", "*1\r\n$x\r\n", "-ERR Protocol error: invalid bulk length\r\n", true},
	{"no size", "*1\r\n$\r\n", "-ERR Protocol error: invalid bulk length\r\n", true},
	{"size with a zero", "*1\r\n$04\r\n", "-ERR Protocol error: invalid bulk length\r\n", true},
	{"size over 512 MB", "*1\r\n$536870913\r\n", "-ERR Protocol error: invalid bulk length\r\n", true},
	{"size of 63 bits", "*1\r\n$9223372036854775807\r\n", "-ERR Protocol error: invalid bulk length\r\n", true},
	{"size of 70 bits", "*1\r\n$999999999999999999999\r\n", "-ERR Protocol error: invalid bulk length\r\n", true},
	{"second argument", "*2\r\n$4\r\nECHO\r\n$-1\r\n", "-ERR Protocol error: invalid bulk length\r\n", true},
	{"between requests", "PING\r\n*1\r\n:4\r\nPING\r\n", "+PONG\r\n-ERR Protocol error: expected '$', got ':'\r\n", true},
	{"in a transaction", "MULTI\r\nECHO x\r\n*1\r\n:4\r\n",
		"+OK\r\n+QUEUED\r\n-ERR Protocol error: expected '$', got ':'\r\n", true},
	{"with subscriptions", "SUBSCRIBE a\r\n*1\r\n:4\r\n",
		"*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n-ERR Protocol error: expected '$', got ':'\r\n", true},
	{"browser", "POST / HTTP/1.1\r\nPING\r\n", "", true},
	{"browser's second line", "Host: x\r\nPING\r\n", "", true},
	{"browser as an array", "*1\r\n$4\r\nPoSt\r\nPING\r\n", "", true},
}

// play sends the bytes of a case and compares the reply.
func (r *requestCase) play(t *testing.T, conn net.Conn, send io.Reader) {
	t.Helper()
	conn.SetDeadline(time.Now().Add(time.Minute))
	go io.Copy(conn, send) // fails if the server closes before it has read everything
	got := make([]byte, len(r.want))
	if n, err := io.ReadFull(conn, got); string(got[:n]) != r.want {
		t.Errorf("got %q %v, want %q", got[:n], err, r.want)
	}
	if !r.closed {
		return
	}
	if n, err := conn.Read(make([]byte, 1)); n > 0 || err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("after the reply %d bytes, %v; want the end", n, err)
	}
}

func TestRequestsLikeRedis(t *testing.T) {
	m, logs := newTestServer(t)
	for _, tt := range requestCases {
		t.Run(tt.name, func(t *testing.T) {
			tt.play(t, m.dialTest(t).bufConn, strings.NewReader(tt.send))
			tt.play(t, m.dialTest(t).bufConn, iotest.OneByteReader(strings.NewReader(tt.send)))
		})
	}
	if logs.Len() != 0 {
		t.Errorf("logged %v", logs.All())
	}
}

// TestRequestCasesOfRedis: the answers in requestCases are those of the installed redis-server.
func TestRequestCasesOfRedis(t *testing.T) {
	server := redistest.Start(t)
	for _, tt := range requestCases {
		t.Run(tt.name, func(t *testing.T) {
			conn, err := net.Dial(server.Network, server.Addr)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			tt.play(t, conn, strings.NewReader(tt.send))
		})
	}
}

// TestRequestsUnlikeRedis: where Redis waits for more bytes that cannot mend a request, the
// embedded server refuses it at once. It refuses counts that Redis accepts since version 7,
// prints no byte that is not printable, and answers all commands before it closes.
func TestRequestsUnlikeRedis(t *testing.T) {
	m, _ := newTestServer(t)
	for _, tt := range []requestCase{
		{"after a command", "PING\r\nHost: x\r\nPING\r\n", "+PONG\r\n", true},
		{"count", "*1048577\r\n", "-ERR Protocol error: invalid multibulk length\r\n", true},
		{"count with LF", "*1\n$4\nPING\n", "-ERR Protocol error: invalid multibulk length\r\n", true},
		{"count without an end", "*" + strings.Repeat("1", 30000), "-ERR Protocol error: invalid multibulk length\r\n",
			true},
		{"size without an end", "*1\r\n$1234567890123456789012", "-ERR Protocol error: invalid bulk length\r\n", true},
		{"zero byte in a line", "PI\x00NG\r\n", "-ERR Protocol error: too big inline request\r\n", true},
		{"not printable", "*1\r\n\x01", "-ERR Protocol error: expected '$', got '.'\r\n", true},
		{"line end", "*1\r\n\r", "-ERR Protocol error: expected '$', got '.'\r\n", true},
	} {
		t.Run(tt.name, func(t *testing.T) { tt.play(t, m.dialTest(t).bufConn, strings.NewReader(tt.send)) })
	}
}

// TestAnnouncedBytesCostNoMemory: the server allocates no memory for bytes that a client only
// announces.
func TestAnnouncedBytesCostNoMemory(t *testing.T) {
	m, _ := newTestServer(t)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for _, send := range []string{"*1048576\r\n$4\r\nPI", "*1\r\n$536870912\r\nab\ncd"} {
		c := m.dialTest(t)
		for _, piece := range strings.SplitAfter(send, "\n") { // the server takes one when it is done with the last
			io.WriteString(c.bufConn, piece)
			c.bufConn.waitUnread(0)
		}
	}
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; used > 8<<20 {
		t.Errorf("%d bytes for a few that came", used)
	}
}
